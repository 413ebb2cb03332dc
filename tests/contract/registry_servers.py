"""The registry's server, for tests: its application alone, or listening on a port."""

import asyncio
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx

from eventlib.http.front import Front
from eventlib.http.limits import Tls
from eventlib.http.registry.app import make_app
from eventlib.http.registry.options import SchemasOptions
from eventlib.http.registry.service import open_service
from eventlib.http.serving import Listening
from eventlib.identity import Role, add_token
from eventlib.log.base import Log
from eventlib.log.memory import MemoryLog
from eventlib.registry.comparing import CompareLimits

if TYPE_CHECKING:
    from confluent_kafka.serialization import SerializationContext


class Pem(NamedTuple):
    """The files of a certificate and its key."""

    certificate: str
    key: str


def self_signed(directory: Path, name: str | None = None) -> Pem:
    """Make a certificate of a host, by default this machine's address, signed by itself, and its key."""
    certificate, key = directory / "c.pem", directory / "k.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1"]
    host = "IP:127.0.0.1" if name is None else f"DNS:{name}"
    names = ["-addext", f"subjectAltName={host}", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*made, *names], check=True, capture_output=True)
    return Pem(str(certificate), str(key))


def identified(directory: Path, **roles: Role) -> tuple[dict[str, str], dict[str, str]]:
    """Make a token for each name and role; return the variables of a server that knows them, and the tokens by name."""
    path = directory / "tokens.json"
    tokens = {name: add_token(path, name, [role])[0] for name, role in roles.items()}
    return {"EVENTLIB_IDENTITY_TOKENS_FILE": str(path), "EVENTLIB_IDENTITY_KEY": "ab" * 16}, tokens


@asynccontextmanager
async def registry(
    log: Log | None = None, limits: CompareLimits | None = None, **options: Any
) -> AsyncIterator[httpx.AsyncClient]:
    """Give a client of the application alone."""
    log = log or MemoryLog()
    async with open_service(log, SchemasOptions(**options), "http://registry", limits=limits) as service:
        front = Front(make_app(service), service.identity, 10_000_000, "registry")
        transport = httpx.ASGITransport(front, raise_app_exceptions=False)
        headers = {"content-type": "application/vnd.schemaregistry.v1+json"}
        async with httpx.AsyncClient(transport=transport, base_url="http://registry", headers=headers) as client:
            yield client


@contextmanager
def listening_registry(pem: Pem | None = None, **options: Any) -> Iterator[str]:
    """Give the URL of a server that listens, beside the test, for clients that block."""
    tls = None if pem is None else Tls(certificate=pem.certificate, key=pem.key)
    listening = Listening("0", tls=tls)
    ready, stop = threading.Event(), threading.Event()

    async def serve() -> None:
        log = MemoryLog()
        opened = open_service(log, SchemasOptions(**options), listening.url)
        async with opened as service, listening.serve(make_app(service)):
            ready.set()
            await asyncio.to_thread(stop.wait)
        await log.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(120)
        yield listening.url
    finally:
        stop.set()
        thread.join(30)
        listening.close()


@cache
def value_of(topic: str) -> "SerializationContext":
    """Say to a client that nobody here wrote where what it reads or writes stands."""
    from confluent_kafka.serialization import MessageField, SerializationContext

    return SerializationContext(topic, MessageField.VALUE)
