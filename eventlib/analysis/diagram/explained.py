"""Which arrows of a diagram an event on a log was emitted along."""

from collections.abc import Sequence

from eventlib.analysis.diagram.building import deadline_id, effect_id
from eventlib.analysis.event_graph import EventGraph

Arrows = Sequence[tuple[str, str]]
"""Arrows by the ids of their ends, from a cause to an emitted event: two when an effect is in between."""


class ExplainedArrows:
    """The arrows of a choreography's diagram, by what a log says of an emitted event."""

    def __init__(self, graph: EventGraph) -> None:
        self._answered: dict[tuple[str, str, str], Arrows] = {}
        self._overdue: dict[tuple[str, str], Arrows] = {}
        for reaction in graph.reactions:
            source = f"{reaction.service}/{reaction.decider.name}"
            for emitted in (event.__name__ for event in reaction.emits):
                if reaction.cause is None:
                    self._overdue[source, emitted] = [(deadline_id(reaction.decider, reaction.name), emitted)]
                    continue
                cause = reaction.cause.__name__
                through = effect_id(reaction.decider, reaction.cause)
                is_effect = reaction.kind == "effect"
                self._answered[cause, emitted, source] = (
                    [(cause, through), (through, emitted)] if is_effect else [(cause, emitted)]
                )

    def of(self, cause: str, emitted: str, source: str) -> Arrows:
        """Return the arrows from a cause's type to an emitted type, by its source (`service/decider`).

        None where these services do not emit the one because of the other: older code did, or it was published.
        """
        return self._answered.get((cause, emitted, source)) or self._overdue.get((source, emitted)) or []
