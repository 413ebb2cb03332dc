"""Serves an application's HTTP beside its services, in the same event loop."""

import asyncio
import errno
import logging
import os
import signal
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal

from eventlib.errors import WiringError
from eventlib.ground.variables import read_settings
from eventlib.http.limits import HttpLimits, Tls, http_limits
from eventlib.identity.identity import Identity, identity_of
from eventlib.identity.principal import METRICS_READERS, Rule

if TYPE_CHECKING:
    import uvicorn

DEFAULT_HOST = "127.0.0.1"


GRACE_S = 5


_LOOK_S = 0.01


_LARGEST_PORT = 65_535


_UNPRIVILEGED = 8000
"""The first port that is tried where the kernel refuses one below 1024."""


_TRIED = 20
"""How many ports are tried one after the other."""


_WAITING = 2_048
"""How many connections the kernel keeps until they are accepted."""


class Listening:
    """A socket that waits for connections, bound before anything else is opened; `option` is the option that named it.

    Clients are kept within the limits that EVENTLIB_HTTP_… set, or `limits`; TLS is as EVENTLIB_TLS_… say, or `tls`.
    Raises: WiringError when the address or the certificate cannot be used, and when others reach the address, while
    `identity` (by default that of the settings; None: the app's own) lets everyone in; SettingsError. `own_host` is a name
    that requests may give this server besides those of the identity.
    """

    def __init__(
        self,
        address: str,
        *,
        option: str = "--http",
        tls: Tls | Literal["settings"] | None = "settings",
        identity: Identity | Literal["settings"] | None = "settings",
        limits: HttpLimits | None = None,
        own_host: str | None = None,
    ) -> None:
        self.own_host = own_host
        self._limits = limits or http_limits()
        self._tls = _tls_options(read_settings(Tls, {}) if tls == "settings" else tls)
        host, _ = host_and_port(address, option)
        self._identity = identity_of() if identity == "settings" else identity
        if self._identity is not None:
            self._identity.refuse_open(host, f"{option} {address}")
        self._socket = _bound(address, option)
        host, port = self._socket.getsockname()[:2]
        scheme = "https" if self._tls else "http"
        self.url = f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    @asynccontextmanager
    async def serve(self, app: Any) -> AsyncIterator["Server"]:
        """Serve an ASGI app until the context is left, or the server is stopped; its task ends earlier only if it fails.

        Guarantee: no app gets a request for a host that the identity does not serve, a write of another origin's page, or a
        body over the limit, whether it has a gate or not.
        Guarantee: requests in progress are answered first, for a few seconds; streams are ended.
        Raises: WiringError when the app does not start.
        """
        from eventlib.http.front import Front
        from eventlib.http.protocol import server_options  # a process that serves nothing does without uvicorn

        limit_repeated_errors()
        app = Front(app, self._identity, self._limits.body_bytes, self.own_host)
        uvicorns = _uvicorn_of(app, {**self._tls, **server_options(self._limits)})
        server = Server(uvicorns, asyncio.create_task(_serve(uvicorns, self._socket), name="http"))
        try:
            while not (uvicorns.started or server.task.done()):  # noqa: ASYNC110  uvicorn has no event for it
                await asyncio.sleep(_LOOK_S)
            if server.task.done():
                server.task.result()
            self._socket.listen(_WAITING)  # uvicorn has set it to what is accepted at once
            yield server
        finally:
            await server.stop()

    def close(self) -> None:
        """Release the port."""
        self._socket.close()


METRICS_RULES = (
    Rule("/metrics", frozenset({"GET"}), METRICS_READERS),
    *(Rule(path, frozenset({"GET"}), frozenset()) for path in ("/healthz", "/readyz")),
)
"""Who may call what at a process's metrics port."""


def serve_insecurely(*, wanted: bool) -> None:
    """Let this process and those that it starts serve every address without identity, if that is wanted."""
    if wanted:
        os.environ["EVENTLIB_IDENTITY_INSECURE"] = "true"


def metered(app: Any, identity: Identity) -> Any:
    """Return a process's metrics and health behind the gate: health is public."""
    from eventlib.http.gate import Gate

    return Gate(app, identity, METRICS_RULES)


def gated(app: Any, identity: Identity) -> Any:
    """Return an application's own app behind the gate, unless it has one. Raises: WiringError for routes without rules."""
    if not identity.is_configured or getattr(getattr(app, "state", None), "has_gate", False):
        return app
    from eventlib.http.gate import Gate, rules_of

    if not hasattr(app, "routes"):
        raise WiringError("this HTTP app has no routes that say who may call them: wrap it, Gate(app, identity, rules)")
    return Gate(app, identity, rules_of(app))


def _forget_the_signal() -> None:
    """Reset the library's process-wide stop flag: streams of servers that are opened later would end at once."""
    streams = sys.modules.get("sse_starlette.sse")
    if streams is not None:
        streams.AppStatus.should_exit = False


class Server:
    """A running server of an app; `task` serves it."""

    def __init__(self, server: "uvicorn.Server", task: "asyncio.Task[None]") -> None:
        self.task = task
        self._server = server

    async def stop(self) -> None:
        """Answer the requests in progress, for a few seconds, and end every connection; idempotent."""
        if self.task.done():
            return
        # As if it had received the signal itself: streams watch for that, and would delay the stop.
        self._server.handle_exit(signal.SIGTERM, None)
        await asyncio.gather(self.task, return_exceptions=True)
        _forget_the_signal()
        for connection in [*self._server.server_state.connections]:
            connection.transport.abort()  # its answer takes longer than that, or is not read
        await asyncio.sleep(0)


def _uvicorn_of(app: Any, options: dict[str, Any]) -> "uvicorn.Server":
    """Return a server that leaves signals to the command."""
    import uvicorn  # a process that serves nothing does without

    class WithoutSignals(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Generator[None, None, None]:
            """Capture none."""
            yield

    return WithoutSignals(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            ws="none",
            timeout_graceful_shutdown=GRACE_S,
            **options,
        )
    )


async def _serve(server: "uvicorn.Server", listening: socket.socket) -> None:
    try:
        await server.serve([listening])
    except SystemExit as error:
        raise WiringError("the HTTP app did not start; its log says why") from error


def _tls_options(tls: Tls | None) -> dict[str, Any]:
    if tls is None or tls.certificate is None:
        return {}
    password = "" if tls.key_password is None else tls.key_password.get_secret_value()
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tls.certificate, tls.key, password)
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror or error
        raise WiringError(f"TLS with {tls.certificate} and {tls.key}: they cannot be used ({reason})") from error
    return {"ssl_certfile": tls.certificate, "ssl_keyfile": tls.key, "ssl_keyfile_password": password}


def host_and_port(address: str, option: str, *, least: int = 0, example: int = 8000) -> tuple[str, int]:
    """Parse an option's PORT, HOST:PORT or [HOST]:PORT. Raises: WiringError."""
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or not least <= int(port) <= _LARGEST_PORT:
        raise WiringError(
            f"{option} {address}: expected a port or HOST:PORT, for example {example} or 0.0.0.0:{example}"
        )
    return host.removeprefix("[").removesuffix("]") or DEFAULT_HOST, int(port)


def _remedy(error: OSError, address: str, option: str) -> str:
    """Return what to give instead: where a port cannot be had, one that was free just now."""
    host, port = host_and_port(address, option)
    if error.errno not in {errno.EADDRINUSE, errno.EACCES}:
        return f"name an address of this machine, for example {option} {DEFAULT_HOST}:{port}"
    named = address.rpartition(":")[0]
    free = _free_port(host, port + 1 if error.errno == errno.EADDRINUSE else _UNPRIVILEGED)
    return f"name another port: {option} {named}{':' if named else ''}{free} is free"


def _free_port(host: str, first: int) -> int:
    """Return the first port from `first` on that can be bound, of a few; else one that the kernel chooses."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in [*range(first, min(first + _TRIED, _LARGEST_PORT + 1)), 0]:
        with suppress(OSError), socket.create_server((host, port), family=family) as tried:
            return int(tried.getsockname()[1])
    return 0


def _bound(address: str, option: str) -> socket.socket:
    host, port = host_and_port(address, option)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=_WAITING)
    except OSError as error:
        raise WiringError(
            f"{option} {address}: this address cannot be used ({os.strerror(error.errno or 0)}); {_remedy(error, address, option)}"
        ) from error
    # For its connections, too: asyncio does it only for sockets that were made with a protocol's number, and without it
    # an answer's body waits 40 ms for the client to acknowledge its head.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


_KINDS = 1_000


class RepeatedErrors(logging.Filter):
    """Passes `most` records of a kind in `window_s` seconds, and counts the others; a kind is a message without its values.

    Guarantee: the first record of a window reports how many of the one before were left out.
    """

    def __init__(self, most: int = 5, window_s: float = 10.0) -> None:
        super().__init__()
        self._most = most
        self._window_s = window_s
        self._seen: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is logged."""
        kind, now = str(record.msg).partition("\n")[0], monotonic()
        began, count = self._seen.get(kind, (now, 0))
        left_out = 0
        if now - began >= self._window_s:
            began, count, left_out = now, 0, max(0, count - self._most)
        if len(self._seen) >= _KINDS:
            self._seen.clear()
        self._seen[kind] = began, count + 1
        if left_out:
            record.msg = f"{record.msg} ({left_out} more like this were left out)"
        return count < self._most


_FILTER = RepeatedErrors()


def limit_repeated_errors() -> None:
    """Limit what a flood of connections or of malformed requests writes to this process's log."""
    for name in ("asyncio", "uvicorn.error", "eventlib.http"):
        logging.getLogger(name).addFilter(_FILTER)
