"""An issuer of access tokens on this machine: keys of its own, and a server that gives them, as the test wants it."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from time import time
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from fastapi import FastAPI
from joserfc import jws
from joserfc.jwk import ECKey, Key, RSAKey

from eventlib.identity import Caller, Identity, IdentityOptions, Role, allow, guard
from tests.serving import serving

AUDIENCE = "orders-api"
SECRET = "00112233445566778899aabbccddeeff"  # noqa: S105  an installation's key that only tests have
_SHORT = 8
Header = dict[str, Any]
Json = dict[str, Any]


@cache
def rsa(kid: str) -> RSAKey:
    """Return the RSA key of a name, which is another one in each process."""
    return RSAKey.generate_key(2048, {"kid": kid, "use": "sig"})


@cache
def ec(kid: str) -> ECKey:
    """Return the EC key of a name, as above."""
    return ECKey.generate_key("P-256", {"kid": kid, "use": "sig"})


@dataclass
class Issuer:
    """What it signs with and what it answers: an answer's body by path, or a coroutine that makes it; it counts requests."""

    keys: list[Key]
    port: int = 0
    answers: dict[str, bytes | Callable[[], Awaitable[bytes]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Its name."""
        return f"http://127.0.0.1:{self.port}"

    def publish(self, *keys: Key, also: tuple[object, ...] = ()) -> None:
        """Give these keys from now on, and what else a set may hold."""
        found = [key.as_dict(private=False) for key in keys]
        self.answers["/keys"] = json.dumps({"keys": [*found, *also]}).encode()

    def claims(self, **changed: object) -> Json:
        """Return the claims of a valid token; None leaves one out."""
        now = int(time())
        claims = {"iss": self.url, "aud": AUDIENCE, "sub": "ada", "iat": now, "exp": now + 300, "roles": ["shop"]}
        return {name: value for name, value in (claims | changed).items() if value is not None}

    def token(self, header: Header | None = None, key: Key | None = None, **changed: object) -> str:
        """Return a token that is signed with a key, by default its first."""
        signed_with = key or self.keys[0]
        algorithm = {"RSA": "RS256", "EC": "ES256"}[signed_with.key_type]
        wanted = {"alg": algorithm, "kid": signed_with.kid, **(header or {})}
        return signed(wanted, json.dumps(self.claims(**changed)).encode(), signed_with)

    def identity(self, clock: Callable[[], float] = time, **options: Any) -> Identity:
        """Return an identity that trusts it."""
        given: dict[str, Any] = {"issuer": self.url, "audience": AUDIENCE, "key": SECRET} | options
        return Identity(IdentityOptions(**given), clock)


def signed(header: Header, payload: bytes, key: Key) -> str:
    """Return a signed text, whatever its header and payload are."""
    registry = jws.JWSRegistry(algorithms=list(jws.JWSRegistry.algorithms), strict_check_header=False)
    return jws.serialize_compact(
        {name: each for name, each in header.items() if each is not None}, payload, key, registry=registry
    )


def part(value: object) -> str:
    """Return a part of a token: bytes, or a value as JSON."""
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def signed_by_hand(head: str, payload: str, key: RSAKey) -> str:
    """Return two parts, whatever they are, with their signature by RS256."""
    private: Any = key.private_key
    signature = private.sign(f"{head}.{payload}".encode(), padding.PKCS1v15(), hashes.SHA256())
    return f"{head}.{payload}.{part(signature)}"


@asynccontextmanager
async def running_issuer(*keys: Key) -> AsyncIterator[Issuer]:
    """Serve an issuer with these keys."""
    issuer = Issuer([*keys])

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split(b" ", 2)[1].decode()
        issuer.asked.append(path)
        answer = issuer.answers.get(path)
        body = await answer() if callable(answer) else answer
        status = "404 Not Found" if body is None else "200 OK"
        length = len(body or b"")
        writer.write(
            f"HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n".encode() + (body or b"")
        )
        await writer.drain()

    async with serving(serve) as issuer.port:
        discovery = {"issuer": issuer.url, "jwks_uri": f"{issuer.url}/keys"}
        issuer.answers["/.well-known/openid-configuration"] = json.dumps(discovery).encode()
        issuer.publish(*keys)
        yield issuer


def app_of(identity: Identity) -> FastAPI:
    """Return an app that answers who calls."""
    app = FastAPI(docs_url=None, redoc_url=None)

    @app.get("/")
    @allow(*Role)
    async def whoami(caller: Caller) -> Mapping[str, object]:
        return {"by": caller.by, "roles": sorted(caller.roles), "customer": caller.customer}

    guard(app, identity)
    return app


@asynccontextmanager
async def asked(identity: Identity, peer: str = "127.0.0.1") -> AsyncIterator[httpx.AsyncClient]:
    """Give a client of an app that answers who calls; an exception of the app is its answer 500."""
    app = app_of(identity)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=(peer, 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client


async def answer(client: httpx.AsyncClient, credentials: str | bytes, *more: tuple[str, str]) -> httpx.Response:
    """Return the answer to a request with a header Authorization, as it is given."""
    value = credentials.encode() if isinstance(credentials, str) else credentials
    others = [(name.encode(), text.encode()) for name, text in more]
    return await client.get("/", headers=[(b"Authorization", value), *others])


async def refused(client: httpx.AsyncClient, token: str | bytes, caplog: pytest.LogCaptureFixture) -> str:
    """Check that a token is refused, and is neither answered nor logged, and return the sentence."""
    value = token.encode() if isinstance(token, str) else token
    found = await answer(client, b"Bearer " + value)
    assert found.status_code == 401, found.text
    assert found.headers["www-authenticate"].startswith("Bearer")
    text = value.decode("latin-1")
    for each in (text, max(text.split("."), key=len)):
        assert len(each) < _SHORT or each not in found.text + caplog.text
    sentence: str = found.json()["detail"]
    return sentence
