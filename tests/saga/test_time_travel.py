"""Any state at any moment is what was recorded live: random moments of a log on which everything happened."""

import asyncio
from collections import Counter, defaultdict
from datetime import datetime
from random import Random
from secrets import token_hex
from typing import NamedTuple

import pytest

from eventlib import EventLog, open_log
from eventlib.errors import ContractError
from eventlib.queries.state import KnownState, known_state
from eventlib.replay.key_history import key_history
from eventlib.replay.point_in_time import state_at
from eventlib.runtime.keyed_state import entry_of
from eventlib.runtime.records import changelog_key
from eventlib.values import from_ms, to_ms
from services import shop
from tests.saga.eventful import Clock, make_eventful

pytestmark = pytest.mark.heavy

SEED = 5
MANY = pytest.param(1_000, marks=pytest.mark.slow)
Name = tuple[str, str]


class Live(NamedTuple):
    """A state as it was written when it was made; None where it was forgotten."""

    at: datetime
    known: KnownState


@pytest.fixture(scope="module", params=["sqlite", pytest.param("kafka", marks=pytest.mark.slow)])
def eventful(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("eventful")
    url = f"sqlite:///{directory}/shop.db"
    if request.param == "kafka":
        url = f"{request.getfixturevalue('broker').url}/?prefix={token_hex(4)}."
    with pytest.MonkeyPatch.context() as patch:
        asyncio.run(make_eventful(url, directory, Clock(patch), SEED))
    return url


async def recorded_live(log: EventLog) -> dict[Name, list[Live]]:
    """Return each state that was ever written, from changelogs that were never compacted."""
    found = defaultdict[Name, list[Live]](list)
    for service in shop.services:
        for partition in range(service.partitions):
            records = await log.port.read(service.changelog.name, partition, 0, 100_000)
            if log.port.url.startswith("sqlite:"):  # Kafka's own marks of transactions take offsets, too
                assert [record.offset for record in records] == [*range(len(records))], "nothing was compacted away"
            for record in records:
                kind, *name, _ = changelog_key((record.key or b"").decode())
                if kind == "state":
                    decider = shop.decider(name[0])
                    at = from_ms(record.timestamp_ms)
                    known = known_state(log, decider, name[1], entry_of(record, decider, log.codec), at)
                    found[name[0], name[1]].append(Live(at, known))
    return found


async def asked(log: EventLog, name: Name, moment: datetime | str) -> KnownState | None:
    try:
        return await state_at(log, *name, moment)
    except ContractError as error:
        if "had no state of" in str(error) or "had handled nothing of" in str(error):
            return None
        raise


@pytest.mark.parametrize("moments", [100, MANY])
async def test_moments_are_as_they_were_recorded_live(eventful: str, moments: int) -> None:
    random = Random(SEED)
    async with open_log(eventful, shop, read_only=True) as log:
        lives = await recorded_live(log)
        names = sorted(lives)
        compared = Counter[str]()
        while compared.total() < moments:
            decider = random.choice(shop.deciders).name
            name = random.choice([name for name in names if name[0] == decider])
            live = lives[name]
            if random.random() < 0.3:
                chosen = random.choice(live).known
                if [each.known.changed_by for each in live].count(chosen.changed_by) > 1 or chosen.changed_by is None:
                    continue
                moment: datetime | str = chosen.changed_by
                expected: KnownState | None = chosen
            else:
                first, last = to_ms(live[0].at), to_ms(live[-1].at)
                exact = to_ms(random.choice(live).at) + random.choice((-1, 0, 1))
                moment = from_ms(exact if random.random() < 0.5 else random.randint(first - 5, last + 5))
                expected = next((each.known for each in reversed(live) if each.at <= moment), None)
            assert await asked(log, name, moment) == expected, (name, moment)
            compared[name[0] if expected is not None else "before the beginning"] += 1
    print(compared)


async def test_it_was_a_log_on_which_everything_has_happened(eventful: str) -> None:
    kinds = Counter[str]()
    async with open_log(eventful, shop, read_only=True) as log:
        for name in sorted(await recorded_live(log)):
            past = await key_history(log, shop.decider(name[0]), name[1])
            assert past.doubt == ""
            kinds.update(step.kind for step in past.steps)
            kinds.update("tried again" for step in past.steps if step.was_parked)
            kinds.update("passed " + step.deadline for step in past.steps if step.kind == "deadline" and step.deadline)
            ends = [step.after is None for step in past.steps if step.entry_after is not step.entry_before]
            kinds["known again"] += ends != sorted(ends)
    print(kinds)
    assert kinds.keys() >= {
        *("handled", "deadline", "answered", "dropped", "parked", "stalled", "retried"),
        *("tried again", "passed overdue_at", "passed forget", "known again"),
    }
