"""Repartitioning: values go on under another key, to the worker that has that key's partition."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from faust.types import StreamT, TopicT

from eventlib.live.events import Carried, Origin
from eventlib.live.transport import Sent
from eventlib.topic import Topic

CarriedAgent = Callable[[StreamT[Carried]], Awaitable[None]]


class Carry:
    """A topic between views: group by another key, as a stream processor's `group_by` does.

    Values keep their origin on the log, which tells a value that was passed on again after a crash from a new one.
    """

    def __init__(self, topic: Topic, channel: TopicT, sent: Sent, decorate: Callable[[Any], Any]) -> None:
        self.topic = topic
        self._channel = channel
        self._sent = sent
        self._decorate = decorate

    async def send(self, key: str, value: Mapping[str, Any], origin: Origin) -> None:
        """Pass a value on; in the order of calls for each key. At most one of an origin for one row."""
        carried = Carried(key, value, origin)
        name = key.encode()
        sent = await self._channel.send(key=name, value=carried.encoded(), partition=self.topic.partition_of(name))
        self._sent.add(cast("asyncio.Future[Any]", sent))

    def watch(self, function: CarriedAgent) -> Any:
        """Decorate what gets the values."""
        return self._decorate(function)
