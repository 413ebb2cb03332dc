"""A network that can be cut: each node of a cluster has a listener of its own for whoever is far away, behind a proxy."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from enum import Enum
from typing import Any, Self

from eventlib.devtools.kafka import Cluster
from eventlib.devtools.kafka.config import HOST
from tests.ports import free_port
from tests.serving import serving

_CHUNK_BYTES = 1 << 16
_PATIENCE_S = 120.0


class Cut(Enum):
    """What of the network is cut."""

    BOTH = "nothing passes"
    ANSWERS = "requests pass, and no answers"
    REQUESTS = "no requests pass; answers to earlier ones do"
    CONNECTIONS = "every connection is reset, and none can be made"


@dataclass(frozen=True, slots=True)
class _Way:
    """From a client's connection to a node's."""

    client: asyncio.StreamWriter
    node: asyncio.StreamWriter

    def reset(self) -> None:
        self.client.transport.abort()
        self.node.transport.abort()


class Network:
    """The way from far away to each node: `with Network() as network: running_cluster(prepare=network.lay)`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)
        self._proxies = list[int]()
        self._servers = AsyncExitStack()
        self._ways = set[_Way]()
        self._refuses = False
        self._requests, self._answers = asyncio.Event(), asyncio.Event()
        self._requests.set()
        self._answers.set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close every connection."""
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def lay(self, cluster: Cluster) -> None:
        """Give each node, which has not been started yet, a listener that is reached through a proxy."""
        for node in cluster.nodes:
            own = free_port()
            through = self._run(self._serve(own))
            self._proxies.append(through)
            settings = dict(line.split("=", 1) for line in node.properties.read_text("utf-8").splitlines())
            more = {
                "listeners": f"{settings['listeners']},FAR://{HOST}:{own}",
                "advertised.listeners": f"{settings['advertised.listeners']},FAR://{HOST}:{through}",
                "listener.security.protocol.map": f"{settings['listener.security.protocol.map']},FAR:PLAINTEXT",
            }
            node.properties.write_text("".join(f"{k}={v}\n" for k, v in {**settings, **more}.items()), "utf-8")

    @property
    def bootstrap(self) -> str:
        """Where somebody far away begins."""
        return ",".join(f"{HOST}:{port}" for port in self._proxies)

    def cut(self, cut: Cut) -> None:
        """Let something not pass from now on."""
        self._call(lambda: self._cut(cut))

    def mend(self, *, reset: bool) -> None:
        """Let everything pass again: what was on its way arrives late, or, with `reset`, its connections are gone."""

        def mended() -> None:
            if reset:
                self._reset()
            self._refuses = False
            self._requests.set()
            self._answers.set()

        self._call(mended)

    def _cut(self, cut: Cut) -> None:
        if cut in {Cut.BOTH, Cut.REQUESTS}:
            self._requests.clear()
        if cut in {Cut.BOTH, Cut.ANSWERS}:
            self._answers.clear()
        if cut is Cut.CONNECTIONS:
            self._refuses = True
            self._reset()

    def _reset(self) -> None:
        for way in [*self._ways]:
            way.reset()

    async def _serve(self, port: int) -> int:
        return await self._servers.enter_async_context(serving(lambda reader, client: self._pass(reader, client, port)))

    async def _pass(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter, port: int) -> None:
        try:
            if self._refuses:
                raise ConnectionResetError
            answers, node = await asyncio.open_connection(HOST, port)
        except OSError:
            client.transport.abort()
            return
        way = _Way(client, node)
        self._ways.add(way)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_pump(reader, node, self._requests))
                both.create_task(_pump(answers, client, self._answers))
        except* OSError:
            pass
        finally:
            way.reset()
            self._ways.discard(way)

    async def _close(self) -> None:
        self._reset()
        await self._servers.aclose()

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_PATIENCE_S)

    def _call(self, change: Callable[[], None]) -> None:
        async def called() -> None:
            change()

        self._run(called())


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passes: asyncio.Event) -> None:
    """Hand on what comes, while that is let pass; whoever closes one end closes the other. Raises: OSError."""
    while data := await reader.read(_CHUNK_BYTES):
        await passes.wait()
        writer.write(data)
        await writer.drain()
    raise ConnectionResetError
