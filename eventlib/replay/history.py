"""What a decider did with one key, step by step."""

from collections.abc import AsyncIterator
from typing import TypeVar

from eventlib.decider import Decider
from eventlib.eventlog import EventLog
from eventlib.replay.past import past_of_key
from eventlib.replay.steps import HistoryStep

S = TypeVar("S")


async def history(log: EventLog, decider: Decider[S], key: str) -> AsyncIterator[HistoryStep[S]]:
    """Yield the steps of a key under its decider, in the order in which they were taken.

    `async for step in history(log, orders, "42"): print(step.at, step.input, step.said, step.changes)`

    Guarantee: exact, from the journal, the inputs and what was said; no handler and no effect runs. The states are
    those that today's `evolve` makes of what was recorded.
    Raises: WiringError for a decider of another choreography; UnknownKey when it has never heard of the key;
    ContractError when retention has dropped what its past is made of, or when today's evolve cannot take it.
    """
    for step in (await past_of_key(log, decider, key)).steps:
        yield step
