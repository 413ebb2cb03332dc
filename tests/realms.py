"""Realms of a Keycloak: the shop's clients, roles and users, and what an administrator does to them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from secrets import token_hex
from typing import Any

import httpx

from tests.keycloak import ADMIN, Keycloak

AUDIENCE = "orders-api"
ROLES = ("customer", "shop", "operator", "auditor", "monitor", "admin")
PASSWORD = "pass-of-the-tests"  # noqa: S105  of users that only a test's own server has
WEB, API = "shop-web", "shop-api"
TOKEN_LIVES_S = 300
Tokens = dict[str, Any]


@dataclass(frozen=True)
class Realm:
    """A realm with a user for each role, named as it, and what the admin API does to it."""

    keycloak: Keycloak
    name: str
    admin: httpx.Client
    secret: str

    def issuer(self, port: int | None = None) -> str:
        """Return the issuer, also as it is called through another port."""
        return f"http://127.0.0.1:{port or self.keycloak.port}/realms/{self.name}"

    @property
    def introspection_url(self) -> str:
        """Where a token is asked for."""
        return f"{self.issuer()}/protocol/openid-connect/token/introspect"

    def login(self, user: str, port: int | None = None, scope: str = "openid") -> Tokens:
        """Return the tokens of a user, by name and password."""
        return self._tokens(port, grant_type="password", username=user, password=PASSWORD, scope=scope)

    def refresh(self, tokens: Tokens) -> Tokens:
        """Return the next tokens."""
        return self._tokens(None, grant_type="refresh_token", refresh_token=tokens["refresh_token"])

    def _tokens(self, port: int | None, **form: str) -> Tokens:
        url = f"{self.issuer(port)}/protocol/openid-connect/token"
        answer = httpx.post(url, data={"client_id": WEB, **form}, timeout=60)
        assert answer.status_code == 200, answer.text
        found: Tokens = answer.json()
        return found

    def revoke(self, token: str) -> None:
        """Revoke a token, as its client does (RFC 7009)."""
        url = f"{self.issuer()}/protocol/openid-connect/revoke"
        httpx.post(url, data={"client_id": WEB, "token": token}, timeout=60).raise_for_status()

    def user_id(self, user: str) -> str:
        """Return a user's id, which is the `sub` of its tokens."""
        (found,) = self.get("/users", username=user, exact="true")
        return str(found["id"])

    def take_role(self, user: str, role: str) -> None:
        """Take a realm's role from a user."""
        representation = self.get(f"/roles/{role}")
        path = f"/users/{self.user_id(user)}/role-mappings/realm"
        self._done("DELETE", path, [{"id": representation["id"], "name": role}])

    def disable(self, user: str) -> None:
        """Let a user no longer log in."""
        self._done("PUT", f"/users/{self.user_id(user)}", {"enabled": False})

    def log_out(self, user: str) -> None:
        """End a user's sessions."""
        self._done("POST", f"/users/{self.user_id(user)}/logout", None)

    def add_key(self, priority: int = 200) -> str:
        """Give the realm a new RSA key, with which it signs from then on; return the name of what provides it."""
        realm = self.get("")["id"]
        name = f"rsa-{token_hex(4)}"
        config = {"priority": [str(priority)], "enabled": ["true"], "active": ["true"], "algorithm": ["RS256"]}
        provider = {"providerId": "rsa-generated", "providerType": "org.keycloak.keys.KeyProvider", "parentId": realm}
        self._done("POST", "/components", {"name": name, **provider, "config": config})
        return name

    def remove_keys_but(self, name: str) -> None:
        """Remove the keys that sign, but for those of one provider."""
        for each in self.get("/components", type="org.keycloak.keys.KeyProvider"):
            if each["providerId"] == "rsa-generated" and each["name"] != name:
                self._done("DELETE", f"/components/{each['id']}", None)

    def get(self, path: str, **query: str) -> Any:
        """Return what the admin API has at a path of this realm."""
        answer = self.admin.get(f"/admin/realms/{self.name}{path}", params=query)
        answer.raise_for_status()
        return answer.json()

    def _done(self, method: str, path: str, body: object) -> None:
        answer = self.admin.request(method, f"/admin/realms/{self.name}{path}", json=body)
        assert answer.is_success, answer.text


@contextmanager
def realm_of(keycloak: Keycloak, *, lives_s: int = TOKEN_LIVES_S) -> Iterator[Realm]:
    """Make a realm `shop-…`, and remove it at the end."""
    with httpx.Client(base_url=keycloak.url, timeout=60) as admin:
        form = {"client_id": "admin-cli", "grant_type": "password", "username": ADMIN, "password": keycloak.password}
        answer = admin.post("/realms/master/protocol/openid-connect/token", data=form)
        answer.raise_for_status()
        admin.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"
        found = Realm(keycloak, f"shop-{token_hex(4)}", admin, token_hex(16))
        made = admin.post("/admin/realms", json=_realm(found.name, found.secret, lives_s))
        assert made.is_success, made.text
        yield found


def _realm(name: str, secret: str, lives_s: int) -> Mapping[str, Any]:
    """Return a realm as Keycloak imports it."""
    return {
        "realm": name,
        "enabled": True,
        "accessTokenLifespan": lives_s,
        "passwordPolicy": "hashAlgorithm(pbkdf2-sha256) and hashIterations(1)",  # which costs a login nothing
        "roles": {"realm": [{"name": role} for role in ROLES]},
        "clients": [
            {"clientId": API, "secret": secret, "standardFlowEnabled": False},
            {
                "clientId": WEB,
                "publicClient": True,
                "standardFlowEnabled": True,
                "redirectUris": ["*"],
                "directAccessGrantsEnabled": True,
                "protocolMappers": [
                    _mapper("audience", "oidc-audience-mapper", {"included.custom.audience": AUDIENCE}),
                    _mapper("api", "oidc-audience-mapper", {"included.client.audience": API}),
                    _mapper(
                        "roles",
                        "oidc-usermodel-realm-role-mapper",
                        {"claim.name": "roles", "multivalued": "true", "jsonType.label": "String"},
                    ),
                ],
            },
        ],
        "users": [_user(role) for role in ROLES],
    }


def _mapper(name: str, kind: str, config: Mapping[str, str]) -> Mapping[str, Any]:
    wanted = {**config, "access.token.claim": "true", "introspection.token.claim": "true"}
    return {"name": name, "protocol": "openid-connect", "protocolMapper": kind, "config": wanted}


def _user(role: str) -> Mapping[str, Any]:
    return {
        "username": role,
        "enabled": True,
        "email": f"{role}@shop.example",
        "emailVerified": True,
        "firstName": role,
        "lastName": "Test",
        "credentials": [{"type": "password", "value": PASSWORD, "temporary": False}],
        "realmRoles": [role],
    }
