"""The shape of a saga that is under way: what is there, without the values that differ from saga to saga."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import Enum

from pydantic import BaseModel

from eventlib.proof.beginning import Prepared
from eventlib.runtime.records import changelog_key
from eventlib.simulation.exhaustive.steps import Steps

_COUNTED = 3


def shape_of(steps: Steps, saga: Prepared) -> Hashable:
    """Return what sagas have in common that are explored once.

    Stages, flags, empty fields and numbers up to three count; larger numbers only by their sign, texts and times only by
    whether they are there, and of many parts that are alike, three.
    """
    if saga.broken or saga.unknown:
        return saga.broken or saga.unknown
    deciders = {d.name: d for service in steps.stage.played.services for d in service.deciders}
    known = list[Hashable]()
    for (service, _), records in saga.knows.items():
        for name, record in records.items():
            about = changelog_key(name)
            if about.kind == "effect":
                known.append((service, "effect", record.type))
            elif about.kind == "state" and record.value and (decider := deciders.get(about.decider)):
                known.append((service, decider.name, alike(steps.log.codec.decode(decider.state, record.value))))
    waiting = [(place[0], record.type) for place, records in saga.waiting.items() for record in records]
    parked = [(task[0], note.decider, note.reason) for task, note, _ in saga.parked]
    past = Counter(record.type for record in saga.events)
    return (
        _counted(known),
        _counted(waiting),
        _counted(parked),
        tuple(sorted((k or "", _few(n)) for k, n in past.items())),
    )


def alike(value: object) -> Hashable:
    """Return a value without what differs from saga to saga."""
    if isinstance(value, BaseModel):
        return tuple((name, alike(getattr(value, name))) for name in type(value).model_fields)
    if is_dataclass(value):
        return tuple((each.name, alike(getattr(value, each.name))) for each in fields(value))
    match value:
        case Mapping():
            return _counted([alike(each) for each in value.values()])
        case tuple() | list() | set() | frozenset():
            return _counted([alike(each) for each in value])
        case _:
            return _simple(value)


def _simple(value: object) -> Hashable:
    match value:
        case None | bool() | Enum():
            return repr(value)
        case int() | float() | Decimal():
            number = float(value)
            return str(value) if abs(number) <= _COUNTED else number > 0
        case str() | bytes():
            return bool(value)
        case _:
            return type(value).__name__


def _counted(parts: Sequence[Hashable]) -> Hashable:
    return tuple(sorted((repr(each), _few(count)) for each, count in Counter(parts).items()))


def _few(count: int) -> int:
    return min(count, _COUNTED)
