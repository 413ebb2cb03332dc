"""Parts of events and states that can be changed in place. Exact, by their classes.

Containers refuse it, and events and states are frozen; a model or dataclass within them is what its own class declares.
"""

from collections.abc import Iterable

from pydantic import BaseModel

from eventlib.analysis.event_graph import EventGraph
from eventlib.model.finding import Finding
from eventlib.model.schema.derive import known_record_of
from eventlib.model.schema.types import Record, nodes_in


def findings(flow: EventGraph) -> Iterable[Finding]:
    """Return the classes of parts that are not frozen, each at the first event or state that holds it."""
    choreography = flow.choreography
    known = set[type]()
    for owner in (*choreography.events, *(decider.state for decider in choreography.deciders)):
        for node in nodes_in(known_record_of(owner)):
            if (
                isinstance(node, Record)
                and node.cls is not owner
                and node.cls not in known
                and not _is_frozen(node.cls)
            ):
                known.add(node.cls)
                yield _finding(node.cls, owner)


def _is_frozen(cls: type) -> bool:
    if issubclass(cls, BaseModel):
        return bool(cls.model_config.get("frozen"))
    return bool(cls.__dataclass_params__.frozen)  # type: ignore[attr-defined]  # a record is one of the two


def _finding(part: type, owner: type) -> Finding:
    frozen = "model_config = ConfigDict(frozen=True)" if issubclass(part, BaseModel) else "@dataclass(frozen=True)"
    return Finding(
        "warning",
        "part-not-frozen",
        part.__name__,
        owner.__name__,
        f"{part.__name__} is a part of {owner.__name__}, and its fields can be changed in place",
        "what one handler changes in it is what the next one in its process is given, and no other process",
        f"declare it with `{frozen}`",
    )
