"""A schema registry elsewhere: any that speaks Confluent's REST API, version 1."""

import asyncio
import ssl
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import SplitResult, quote, urlsplit, urlunsplit

import httpx

from eventlib.codec.registry import AVRO, Registry, Schema, Version, Wanted
from eventlib.errors import RegistryRefused, RegistryUnavailable, WiringError
from eventlib.ground.http_client import http_client
from eventlib.ground.plaintext import warn_of_plaintext
from eventlib.ground.url import is_host, refuse_userinfo
from eventlib.registry.records import same_text

_TIMEOUT_S = 10.0
_CONNECT_ATTEMPTS = 2
_TYPE = "application/vnd.schemaregistry.v1+json"
_NOT_FOUND = 404
_DENIED = frozenset({401, 403})
_LATER = frozenset({408, 425, 429})
_FORM = "https://host:port"


class RemoteRegistry(Registry):
    """Schemas in a registry: each is asked for once, and known from then on.

    Guarantee: while the registry is away, what is known here goes on; what is not raises RegistryUnavailable.
    Raises: WiringError for a URL or a certificate file that is none; RegistryUnavailable and RegistryRefused from
    whatever asks.
    """

    def __init__(self, url: str, ca: str | None = None, auth: tuple[str, str] | None = None) -> None:
        refuse_userinfo(url, "EVENTLIB_REGISTRY", "set EVENTLIB_REGISTRY_USER and EVENTLIB_REGISTRY_PASSWORD")
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not is_host(parts.hostname or "") or not _has_good_port(parts):
            raise WiringError(f"EVENTLIB_REGISTRY is no URL of a registry: give {_FORM}")
        self._place = urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))
        if auth is not None:
            warn_of_plaintext("EVENTLIB_REGISTRY_PASSWORD", url, "give EVENTLIB_REGISTRY an https:// URL")
        transport = httpx.AsyncHTTPTransport(verify=_trust(ca), retries=_CONNECT_ATTEMPTS)
        self._client = http_client(transport=transport, auth=auth, timeout=_TIMEOUT_S, headers={"Accept": _TYPE})
        self._known: dict[int, Schema] = {}
        self._ids: dict[Wanted, int] = {}
        self._versions: dict[tuple[str, int], Version] = {}
        self._asked = set[int]()

    def schema(self, schema_id: int) -> Schema | None:
        """See `Registry.schema`."""
        found = self._known.get(schema_id)
        if found is None:
            self._asked.add(schema_id)
        return found

    async def refresh(self) -> None:
        """Ask for the schemas that were asked for, and not known."""
        asked, self._asked = self._asked - self._known.keys(), set()
        try:
            while asked:
                number = next(iter(asked))
                found = await self._get(f"/schemas/ids/{number}")
                if found is not None:
                    self._known[number] = _schema(found)
                asked.discard(number)
        finally:
            self._asked |= asked  # those without an answer yet

    async def ids(self, wanted: Iterable[Wanted]) -> list[int | None]:
        """See `Registry.ids`."""
        return list(await asyncio.gather(*(self._id(each) for each in wanted)))

    async def register(self, wanted: Iterable[Wanted]) -> None:
        """See `Registry.register`. Raises: RegistryRefused for a schema that is not compatible."""
        for subject, schema in dict.fromkeys(wanted):
            if (subject, schema) in self._ids:
                continue
            made = await self._ask("POST", f"/subjects/{_part(subject)}/versions", _body(schema))
            if made is None:
                raise RegistryRefused(f"{self._place} has no place for {subject}: does the URL name a registry?")
            self._learn(subject, schema, made["id"])

    async def versions(self, subject: str) -> Sequence[Version]:
        """See `Registry.versions`."""
        path = f"/subjects/{_part(subject)}/versions"
        return [await self._version(subject, int(number)) for number in await self._get(path) or ()]

    async def subjects(self) -> Sequence[str]:
        """See `Registry.subjects`."""
        return sorted(await self._get("/subjects") or ())

    async def level(self, subject: str) -> str | None:
        """See `Registry.level`."""
        found = await self._get(f"/config/{_part(subject)}")
        return None if found is None else str(found["compatibilityLevel"])

    async def set_level(self, subject: str, level: str) -> None:
        """See `Registry.set_level`."""
        await self._ask("PUT", f"/config/{_part(subject)}", {"compatibility": level})

    async def close(self) -> None:
        """Close its connections."""
        await self._client.aclose()

    async def _id(self, wanted: Wanted) -> int | None:
        if wanted not in self._ids:
            subject, schema = wanted
            found = await self._ask("POST", f"/subjects/{_part(subject)}", _body(schema))
            if found is None:
                return None
            self._learn(subject, schema, found["id"])
        return self._ids[wanted]

    def _learn(self, subject: str, schema: Schema, number: int) -> None:
        self._ids[subject, schema] = number
        self._known.setdefault(number, schema)

    async def _version(self, subject: str, number: int) -> Version:
        known = self._versions.get((subject, number))
        if known is None:
            found = await self._get(f"/subjects/{_part(subject)}/versions/{number}")
            if found is None:
                raise RegistryRefused(f"{self._place}: version {number} of {subject} was deleted just now; try again")
            known = self._versions[subject, number] = Version(subject, number, int(found["id"]), _schema(found))
        return known

    async def _get(self, path: str) -> Any:
        return await self._ask("GET", path)

    async def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Return what the registry answers; None for what it does not have."""
        try:
            answer = await self._client.request(method, f"{self._place}{path}", json=body)
        except httpx.HTTPError as error:
            self._refuse_other_tls(error)
            raise RegistryUnavailable(
                f"the schema registry at {self._place} cannot be reached ({type(error).__name__}: {error!s:.200}): "
                "schemas that are known here go on, others wait for it"
            ) from error
        if answer.status_code == _NOT_FOUND:
            if not _is_registrys(answer):  # what stands before a registry that is away says the same
                raise RegistryUnavailable(
                    f"what answers at {self._place} has no registry there now (404 {path}): is EVENTLIB_REGISTRY right?"
                )
            return None
        if answer.is_server_error or answer.status_code in _LATER:
            raise RegistryUnavailable(f"the schema registry at {self._place} fails: {_reason(answer)}")
        if answer.status_code in _DENIED:
            raise RegistryRefused(
                f"the schema registry at {self._place} does not let this user in, or do that: {_reason(answer)}; see "
                "EVENTLIB_REGISTRY_USER and EVENTLIB_REGISTRY_PASSWORD"
            )
        if not answer.is_success:
            raise RegistryRefused(f"the schema registry at {self._place} refuses {path}: {_reason(answer)}")
        try:
            return answer.json()
        except ValueError as error:
            raise RegistryRefused(f"what answers at {self._place} is no schema registry: {answer.text:.100}") from error

    def _refuse_other_tls(self, error: httpx.HTTPError) -> None:
        """Refuse what stays so until a setting is changed. Raises: RegistryRefused."""
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, ssl.SSLError):
            cause = cause.__cause__ or cause.__context__
        if isinstance(cause, ssl.SSLCertVerificationError):
            raise RegistryRefused(
                f"the certificate of the schema registry at {self._place} is not trusted ({cause.verify_message}): see "
                "EVENTLIB_REGISTRY_CA"
            ) from error
        if isinstance(cause, ssl.SSLError) and cause.reason == "WRONG_VERSION_NUMBER":
            raise RegistryRefused(
                f"what answers at {self._place} does not speak TLS: write http:// in EVENTLIB_REGISTRY, or name its port "
                "for TLS"
            ) from error


def _has_good_port(parts: SplitResult) -> bool:
    try:
        return parts.port is None or parts.port > 0
    except ValueError:
        return False


def _is_registrys(answer: httpx.Response) -> bool:
    """Tell whether an answer is in a registry's form."""
    try:
        return "error_code" in answer.json()
    except (ValueError, TypeError):
        return False


def _trust(ca: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise WiringError(f"EVENTLIB_REGISTRY_CA={ca!r} is no file with certificates: {error}") from error


def _body(schema: Schema) -> dict[str, Any]:
    body = {"schema": schema.text}
    return body if schema.kind == AVRO else {**body, "schemaType": schema.kind}


def _schema(found: Any) -> Schema:
    kind = str(found.get("schemaType") or AVRO)
    return Schema(same_text(str(found["schema"]), kind), kind)


def _part(name: str) -> str:
    return quote(name, safe="")


def _reason(answer: httpx.Response) -> str:
    try:
        found = answer.json()
        return f"{found['error_code']} {found['message']!s:.400}"
    except (ValueError, LookupError, TypeError):
        return f"{answer.status_code} {answer.reason_phrase}"
