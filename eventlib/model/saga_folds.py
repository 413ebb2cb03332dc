"""A saga's events folded: neighbours of one type become one line, so that a saga of a thousand events stays readable."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from eventlib.model.saga import Saga, SagaEvent

_MOST = 3
"""How many events of one type get lines of their own before they are folded."""


class Fold(NamedTuple):
    """One line: an event, or several of one type."""

    events: Sequence[SagaEvent]

    @property
    def first(self) -> SagaEvent:
        """The event that represents all."""
        return self.events[0]

    @property
    def last(self) -> SagaEvent:
        """The last one of them."""
        return self.events[-1]

    @property
    def title(self) -> str:
        """The events' type, and how many there are."""
        return self.first.type if len(self.events) == 1 else f"{self.first.type} ×{len(self.events):,}"  # noqa: RUF001  the sign for "times"

    @property
    def span(self) -> str:
        """The time from the first to the last."""
        return f"until +{self.last.after_ms:,} ms"


def rows(saga: Saga, *, fold: bool) -> list[Fold]:
    """Return a timeline's lines: neighbours of one type with one type of cause are folded."""
    runs = list[list[SagaEvent]]()
    for event in saga.events:
        if runs and _kind(runs[-1][0]) == _kind(event):
            runs[-1].append(event)
        else:
            runs.append([event])
    return [line for run in runs for line in _folded(run, fold=fold)]


def branches(siblings: Iterable[SagaEvent], *, fold: bool) -> list[Fold]:
    """Return a tree's branches: siblings of one type are folded, adjacent or not."""
    kinds: dict[object, list[SagaEvent]] = {}
    for event in sorted(siblings, key=lambda event: event.after_ms):
        kinds.setdefault(_kind(event), []).append(event)
    return [line for kind in kinds.values() for line in _folded(kind, fold=fold)]


def _folded(events: list[SagaEvent], *, fold: bool) -> list[Fold]:
    return [Fold(events)] if fold and len(events) > _MOST else [Fold([event]) for event in events]


def _kind(event: SagaEvent) -> tuple[str, str, str, str | None]:
    cause = None if event.cause is None else event.cause.type
    return event.type, event.service, event.role, cause
