"""The codec of an alternative past: it reads what the log has, and writes what is on no log."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from eventlib.codec.base import Codec
from eventlib.codec.registry import Schema
from eventlib.codec.wire_format import FramedCodec
from eventlib.eventlog import EventLog
from eventlib.log.memory import MemoryLog
from eventlib.model.choreography import Choreography
from eventlib.personal.opening import ephemeral_cipher

T = TypeVar("T")


class AlternativeCodec(Codec):
    """Decodes with the recorded log's schemas; encodes with schemas of its own, so that nothing is registered there."""

    def __init__(self, recorded: Codec, own: Codec) -> None:
        self.registry = recorded.registry
        self._recorded = recorded
        self._own = own

    def subject(self, topic: str, cls: type[Any]) -> str:
        """See `Codec.subject`."""
        return self._recorded.subject(topic, cls)

    def schema_of(self, cls: type[Any]) -> Schema:
        """See `Codec.schema_of`."""
        return self._recorded.schema_of(cls)

    async def prepare(self, types: Iterable[tuple[str, type[Any]]]) -> None:
        """See `Codec.prepare`."""
        await self._own.prepare(types)

    async def unreadable(self, topic: str, cls: type[Any]) -> Mapping[bytes, str]:
        """See `Codec.unreadable`."""
        return await self._recorded.unreadable(topic, cls)

    async def refresh(self) -> None:
        """See `Codec.refresh`."""
        await self._recorded.refresh()

    def encode(self, value: object) -> bytes:
        """See `Codec.encode`."""
        return self._own.encode(value)

    def rewriter(self, cls: type[Any], data: bytes) -> Callable[[Any], bytes] | None:
        """See `Codec.rewriter`."""
        return self._recorded.rewriter(cls, data)

    def decode(self, expected: type[T], data: bytes) -> T:
        """See `Codec.decode`."""
        return self._recorded.decode(expected, data)


async def alternative_log(recorded: EventLog, choreography: Choreography) -> EventLog:
    """Return a log in memory for a choreography, which reads what is on the recorded one."""
    port = MemoryLog()
    own = FramedCodec(port, personal=ephemeral_cipher(choreography))
    await EventLog(port, own, choreography).prepare()
    return EventLog(port, AlternativeCodec(recorded.codec, own), choreography)
