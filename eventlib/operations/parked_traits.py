"""Traits of a parked group: what its members have in common, and where they differ from what passed at the same time."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from math import comb
from typing import Any

from pydantic_core import to_json

from eventlib.eventlog import EventLog
from eventlib.index.attributes import declared_in
from eventlib.index.log_index import LogIndex
from eventlib.model.event import Event, contract_of
from eventlib.model.personal import personal_fields
from eventlib.model.record import Record
from eventlib.operations.parked_groups import ParkedGroup
from eventlib.queries.parked import Parking, waiting_inputs
from eventlib.runtime.records import parked_key

_MOST = 100
"""How many members, and how many that passed, are compared."""
_AROUND = 2_000
"""So many events before and after those of the members are of the same time."""
_SHARE, _GAP, _FEWEST, _CHANCE = 0.8, 0.3, 5, 0.001
_LONGEST = 80
_OF_SAGA = " of the saga"
Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Trait:
    """A value, or a range of numbers, that `count` of `members` members have, and `passed_count` of `passed` that passed.

    `differs` when that is unlikely by chance: once in a thousand, if members were drawn from what passed.
    """

    name: str
    value: str
    count: int
    members: int
    passed_count: int
    passed: int

    @property
    def differs(self) -> bool:
        """Whether members differ in it from what passed: by enough, and not by chance."""
        if self.passed < _FEWEST or self.count / self.members - self.passed_count / self.passed < _GAP:
            return False
        expected = (self.passed_count + 1) / (self.passed + 2)
        ways = range(self.count, self.members + 1)
        chance = sum(comb(self.members, n) * expected**n * (1 - expected) ** (self.members - n) for n in ways)
        return chance <= _CHANCE


@dataclass(frozen=True, slots=True)
class Traits:
    """The traits of a group: those that differ first. `members` and `passed` are how many were looked at."""

    found: Sequence[Trait]
    members: int
    passed: int


async def traits_of(log: EventLog, index: LogIndex, group: ParkedGroup) -> Traits:
    """Return what the members of a group have in common, of the fields of their events and the attributes of their sagas.

    Guarantee: personal fields take no part. Cost: up to 100 members and 100 events that passed are read.
    """
    members = group.members[:_MOST]
    inputs = [each for each in [await _input_of(log, index, parking) for parking in members] if each is not None]
    others = _passed(index, group, [each.event_id for each in inputs], inputs[0].type or "") if inputs else []
    passed = [each for _, topic, at, offset in others for each in await log.port.read(topic, at, offset, 1)]
    sagas = [_saga_of(index, each) for each in members]
    own = [*await _fields(log, inputs), *_attributes(log, index, [each for each in sagas if each])]
    other = [*await _fields(log, passed), *_attributes(log, index, [each[0] for each in others if each[0]])]
    own += [{"parked on (UTC)": f"{each.since:%Y-%m-%d}", "code": each.code_version[:8] or None} for each in members]
    fields = dict.fromkeys(name for facts in own for name in facts)
    names = [
        each for each in fields if each.removesuffix(_OF_SAGA) == each or each.removesuffix(_OF_SAGA) not in fields
    ]
    traits = [trait(name, _values(own, name), _values(other, name)) for name in names]
    common = sorted((each for each in traits if each is not None), key=lambda each: not each.differs)
    return Traits(common, len(members), len(passed))


def trait(name: str, own: Sequence[Any], passed: Sequence[Any]) -> Trait | None:
    """Return what values of members have in common; None where they have nothing."""
    if not own:
        return None
    value, count = Counter(own).most_common(1)[0]
    if count > 1 and count / len(own) >= _SHARE:
        return Trait(name, str(value), count, len(own), passed.count(value), len(passed))
    if len(own) < _FEWEST or not all(isinstance(each, int | float | Decimal) for each in (*own, *passed)):
        return None
    low, high = min(own), max(own)
    within = Trait(
        name, f"{low:,} to {high:,}", len(own), len(own), sum(low <= each <= high for each in passed), len(passed)
    )
    return within if within.differs else None


def _values(facts: Iterable[Facts], name: str) -> list[Any]:
    return [each[name] for each in facts if each.get(name) is not None]


async def _input_of(log: EventLog, index: LogIndex, parking: Parking) -> Record | None:
    """Return the first input of a parked key, or the request of an effect; None for a deadline, and for what is gone."""
    if parking.id is not None:
        rows = index.rows('SELECT topic, partition, "offset" FROM _events WHERE id = ? LIMIT 1', (parking.id,))
        found = [each for topic, at, offset in rows for each in await log.port.read(topic, at, offset, 1)]
        return found[0] if found else None
    waiting = await waiting_inputs(log, parking, 1)
    return waiting[0].record if waiting and waiting[0].record.topic else None


def _passed(
    index: LogIndex, group: ParkedGroup, ids: Sequence[str], kind: str
) -> list[tuple[str | None, str, int, int]]:
    """Return the saga and the place of events of a type that came at the same time, and are not parked there themselves."""
    first, last = index.rows(
        "SELECT min(n), max(n) FROM _events WHERE id IN (SELECT value FROM json_each(?))", (to_json(ids).decode(),)
    )[0]
    if first is None:
        return []
    rows = index.rows(
        """
        SELECT e.saga, e.topic, e.partition, e."offset" FROM _events AS e WHERE e.type = ? AND e.n BETWEEN ? AND ?
        AND NOT EXISTS (SELECT 1 FROM _waits AS w WHERE w.origin = 'effect/' || e.id)
        AND NOT EXISTS (SELECT 1 FROM _waits AS w WHERE w.origin = ? || e.key AND w.service = ?) ORDER BY e.n
        """,
        (kind, first - _AROUND, last + _AROUND, parked_key(group.members[0].decider, ""), group.service),
    )
    chosen = rows[:: max(1, len(rows) // _MOST)][:_MOST]
    return [(saga, topic, partition, offset) for saga, topic, partition, offset in chosen]


def _saga_of(index: LogIndex, parking: Parking) -> str | None:
    origin = f"effect/{parking.id}" if parking.id else parked_key(parking.decider, parking.key)
    rows = index.rows("SELECT saga FROM _waits WHERE origin = ? AND service = ? LIMIT 1", (origin, parking.service))
    return rows[0][0] if rows else None


async def _fields(log: EventLog, records: Sequence[Record]) -> list[Facts]:
    """Return the fields of events that can be compared: no personal one, and no key; of a list its length."""
    found = list[Facts]()
    for record, event in await log.decode_many(records):
        if isinstance(event, Event):
            hidden = {*personal_fields(type(event)), contract_of(type(event)).key, log.choreography.saga_field}
            shown = {name: _comparable(value) for name, value in event if name not in hidden}
            lengths = {f"{name}, how many": len(value) for name, value in event if isinstance(value, tuple | list)}
            found.append(
                {**shown, **{name: each for name, each in lengths.items() if name.partition(",")[0] not in hidden}}
            )
        elif record.type:
            found.append({"type": record.type})
    return found


def _comparable(value: Any) -> Any:
    if isinstance(value, Enum):
        return _comparable(value.value)
    if isinstance(value, bool | str):
        return str(value) if len(str(value)) <= _LONGEST else None
    return value if isinstance(value, int | float | Decimal) else None


def _attributes(log: EventLog, index: LogIndex, sagas: Sequence[str]) -> list[Facts]:
    """Return what is declared to be searchable of sagas, but for what is personal."""
    declared = [
        each
        for each in declared_in(log.choreography).values()
        if not each.field.many and each.field.field not in personal_fields(each.field.cls)
    ]
    if not declared or not sagas:
        return []
    columns = ", ".join(f'"{each.attribute.name}"' for each in declared)
    question = f"SELECT {columns} FROM _sagas WHERE saga IN (SELECT value FROM json_each(?))"  # noqa: S608  declared names
    rows = index.rows(question, (to_json(sagas).decode(),))
    return [
        {
            f"{each.attribute.name}{_OF_SAGA}": None if value is None else _comparable(each.field.kind.shown(value))
            for each, value in zip(declared, row, strict=True)
        }
        for row in rows
    ]
