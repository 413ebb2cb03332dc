"""What a choreography declares: every event of its own and every state, with the schema that today's class has."""

from dataclasses import dataclass
from typing import Any, Literal

from eventlib.codec.formats import format_of
from eventlib.codec.registry import Registry, Schema, Version
from eventlib.errors import WiringError
from eventlib.eventlog import EventLog
from eventlib.model.event import contract_of
from eventlib.model.schema.derive import record_of
from eventlib.registry.compatibility import Level

Kind = Literal["event", "state"]

LEVELS: dict[Kind, Level] = {"event": Level.FULL_TRANSITIVE, "state": Level.BACKWARD_TRANSITIVE}
"""What is asked of a subject with no level of its own.

Old events are read by new code and new ones by old code, at any time. A state is read by the code that comes after:
the code before has no business with it, and goes back with states that are rebuilt from the log.
"""


@dataclass(frozen=True, slots=True)
class Declared:
    """An event or a state of the choreography, and its schema; `version` is the version of its contract."""

    kind: Kind
    cls: type[Any]
    topic: str
    subject: str
    schema: Schema
    version: int

    @property
    def name(self) -> str:
        """The class's name, by which people call it."""
        return self.cls.__name__

    def version_in(self, written: Version) -> int:
        """Return which version of the contract a registered schema is."""
        return format_of(written.schema.kind).version_in(written.schema.text)


def declared(log: EventLog) -> list[Declared]:
    """Return a choreography's events, without those that others write, and its states."""
    found = dict[str, Declared]()
    for event in log.choreography.events:
        contract = contract_of(event)
        if contract.external is None:
            each = _declared(log, "event", contract.topic.name, event)
            found[each.subject] = each
    for service in log.choreography.services:
        for decider in service.deciders:
            each = _declared(log, "state", service.changelog.name, decider.state)
            found.setdefault(each.subject, each)
    return list(found.values())


def named(log: EventLog, name: str) -> Declared:
    """Return an event or a state by its name or its subject. Raises: WiringError, with what there is."""
    every = declared(log)
    found = [each for each in every if name in {each.name, each.subject}]
    if len(found) == 1:
        return found[0]
    if found:
        raise WiringError(f"{name} is several: {', '.join(each.subject for each in found)}; name one of these")
    raise WiringError(
        f"{log.choreography.name} has no event or state {name!r}: there are {', '.join(each.name for each in every)}"
    )


async def level_of(registry: Registry, each: Declared) -> Level:
    """Return what is asked of an event or a state. Raises: WiringError for a level that is none."""
    found = await registry.level(each.subject)
    try:
        return LEVELS[each.kind] if found is None else Level(found)
    except ValueError:
        raise WiringError(
            f"{each.subject} has the compatibility level {found!r}; known are {', '.join(Level)}"
        ) from None


def _declared(log: EventLog, kind: Kind, topic: str, cls: type[Any]) -> Declared:
    codec = log.codec
    return Declared(kind, cls, topic, codec.subject(topic, cls), codec.schema_of(cls), record_of(cls).version)
