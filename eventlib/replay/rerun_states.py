"""What a rerun knew when its service took that over: its changelog, which ends there."""

from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from eventlib.decider import Decider
from eventlib.eventlog import EventLog
from eventlib.log.chunks import chunks
from eventlib.log.port import TopicPartition
from eventlib.runtime.entry import Entry, entry_of
from eventlib.runtime.records import PARKED, STATE, state_name


class Known(NamedTuple):
    """What was known of a key of a decider; `entry` is None where the key was only parked, or let go on."""

    decider: str
    key: str
    entry: Entry | None
    is_parked: bool = False


async def known_by_rerun(
    log: EventLog, place: TopicPartition, deciders: Mapping[str, Decider[Any]]
) -> AsyncIterator[Known]:
    """Yield what stands on a rerun's changelog, in order: what comes later about a key is what it knew in the end.

    Raises: ContractError, UnknownSchema for a state that today's code cannot read.
    """
    async for records in chunks(log.port, place, 0):
        for record in records:
            kind, (decider, key) = _kind_and_name((record.key or b"").decode())
            if kind == PARKED:
                yield Known(decider, key, None, is_parked=record.value is not None)
            elif kind == STATE and record.value is None:
                yield Known(decider, key, Entry())
            elif kind == STATE and decider in deciders:
                yield Known(
                    decider, key, await log.codec.known(partial(entry_of, record, deciders[decider], log.codec))
                )


def _kind_and_name(key: str) -> tuple[str, tuple[str, str]]:
    for kind in (STATE, PARKED):
        if key.startswith(kind):
            return kind, state_name(key)
    return "", ("", "")
