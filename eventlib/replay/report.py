"""The result of a replay: how much was compared, which handlers differ, for which sagas; the first ones in full."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from eventlib.model.measures import Measures

Kind = Literal["other", "silent", "talks", "raises", "no-deadline", "overdue", "unreadable", "unhandled", "state"]
"""How a decision differs.

- `other`: other events are emitted; `silent`: none, where some were; `talks`: some, where none were.
- `raises`: the handler or evolve raises.
- `no-deadline`: a deadline passed that would not be set, or not for then; `overdue`: one would have passed that did not.
- `unreadable`: the current event classes cannot read the input; `unhandled`: no decider handles it any more.
- `state`: another state follows from what was emitted, beside code that runs.
"""


@dataclass(frozen=True, slots=True)
class ComparedEvent:
    """One event, as it was or would be emitted: its fields, ready for JSON; `error` is why it has none.

    `measures` is what its fields of money and units come to.
    """

    type: str
    key: str
    topic: str
    facts: dict[str, object]
    error: str = ""
    measures: Measures = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Input:
    """The input of a decision: an event (type, id and log position), or a deadline by name (without a position)."""

    type: str
    id: str
    topic: str = ""
    partition: int = 0
    offset: int = -1
    facts: dict[str, object] = field(default_factory=dict)

    @property
    def cause(self) -> str:
        """What names it among the inputs of its key: the event's id, or the deadline's name."""
        return self.id if self.topic else self.type


@dataclass(frozen=True, slots=True)
class Difference:
    """One decision that changes under the current code.

    `handler` is `service/decider.handler`. `saga` is the key of the saga's final event (an order's id) if the events have
    it, else the decider's key. `then` was emitted, `now` would be. `why` explains what the two do not show.
    """

    handler: str
    kind: Kind
    key: str
    saga: str
    at_ms: int
    input: Input
    then: Sequence[ComparedEvent]
    now: Sequence[ComparedEvent]
    why: str = ""

    @property
    def source(self) -> str:
        """Who decides: `service/decider`, also of an input that no handler takes."""
        return self.handler.partition(".")[0].partition(" ")[0]

    @property
    def service(self) -> str:
        """The service's name."""
        return self.source.partition("/")[0]

    @property
    def decider(self) -> str:
        """The decider's name."""
        return self.source.partition("/")[2]

    @property
    def place(self) -> tuple[int, str, str, str, int, int, str]:
        """Its sort key among all differences: by time, then by where it was found."""
        given = self.input
        return self.at_ms, self.handler, self.key, given.topic, given.partition, given.offset, given.id


@dataclass(frozen=True, slots=True)
class HandlerReport:
    """One handler: how many decisions were compared, how many differ, and in which sagas."""

    handler: str
    decisions: int
    differences: int
    sagas: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a replay. `first` has the first difference of each of the first sagas.

    `unknown` are events with a service as source that no journal has: another program wrote them. `notes` are sentences
    about what could not be compared, `damaged` about damaged records: what depends on them is not compared. `silent` are the
    sagas for which nothing is emitted where something was.
    """

    events: int
    transactions: int
    decisions: int
    handlers: tuple[HandlerReport, ...]
    first: tuple[Difference, ...]
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()

    @property
    def differences(self) -> int:
        """How many decisions differ."""
        return sum(handler.differences for handler in self.handlers)

    @property
    def differing(self) -> tuple[HandlerReport, ...]:
        """The handlers that differ, the most frequent first."""
        found = (handler for handler in self.handlers if handler.differences)
        return tuple(sorted(found, key=lambda handler: (-handler.differences, handler.handler)))

    @property
    def sagas(self) -> tuple[str, ...]:
        """The sagas with differences."""
        return tuple(sorted({saga for handler in self.handlers for saga in handler.sagas}))

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return not self.differences and not self.unknown


NOTHING_COMPARED = Report(0, 0, 0, (), ())


class Tally:
    """Counts decisions and differences while a log is replayed, and keeps the first ones.

    Up to `MOST_SAGAS` sagas are listed for each handler; all differences are counted, and each is `told`.
    """

    def __init__(self, limit: int, told: Callable[[Difference], None] | None = None) -> None:
        self._limit = limit
        self._told = told
        self._differences = Counter[str]()
        self._sagas: dict[str, set[str]] = {}
        self._first: dict[str, Difference] = {}
        self.decisions = Counter[str]()
        self.transactions = 0
        self.unknown: list[str] = []
        self.notes: dict[str, None] = {}
        self.damaged: set[str] = set()
        self._silent = set[str]()

    def add(self, difference: Difference) -> None:
        """Count a difference."""
        if self._told is not None:
            self._told(difference)
        self._differences[difference.handler] += 1
        sagas = self._sagas.setdefault(difference.handler, set())
        if len(sagas) < MOST_SAGAS:
            sagas.add(difference.saga)
        if difference.kind in _SILENT and len(self._silent) < MOST_SAGAS:
            self._silent.add(difference.saga)
        self._keep(difference)

    def include(self, report: Report) -> None:
        """Count what another shard has counted."""
        for each in report.handlers:
            self.decisions[each.handler] += each.decisions
            self._differences[each.handler] += each.differences
            self._sagas.setdefault(each.handler, set()).update(each.sagas)
        for difference in report.first:
            self._keep(difference)
        self.transactions += report.transactions
        self.unknown += report.unknown
        self.notes |= dict.fromkeys(report.notes)
        self._silent.update(report.silent)
        self.damaged.update(report.damaged)

    def _keep(self, difference: Difference) -> None:
        """Keep the first difference of a saga, if it is one of the first sagas."""
        known = self._first.get(difference.saga)
        if known is None or difference.place < known.place:
            self._first[difference.saga] = difference
            if len(self._first) > 2 * self._limit:
                self._keep_first()

    def _keep_first(self) -> None:
        """Keep the first sagas only: which ones depends on the differences alone, not on the order they were found in."""
        first = sorted(self._first.values(), key=lambda difference: difference.place)
        self._first = {difference.saga: difference for difference in first[: self._limit]}

    def report(self, events: int) -> Report:
        """Return the report."""
        self._keep_first()
        handlers = [
            HandlerReport(name, self.decisions[name], self._differences[name], _sorted(self._sagas.get(name, ())))
            for name in sorted(self.decisions.keys() | self._differences.keys())
        ]
        return Report(
            events,
            self.transactions,
            self.decisions.total(),
            tuple(handlers),
            tuple(self._first.values()),
            tuple(sorted(self.unknown)),
            tuple(sorted(self.notes)),
            _sorted(self._silent),
            _sorted(self.damaged),
        )


def merged(reports: Iterable[Report], limit: int) -> Report:
    """Return the reports of all shards as one, equal to that of an unsharded replay."""
    tally, events = Tally(limit), 0
    for report in reports:
        tally.include(report)
        events += report.events
    return tally.report(events)


def _sorted(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(texts)))


MOST_SAGAS = 100_000

_SILENT: set[Kind] = {"silent", "raises", "unhandled", "unreadable"}
"""The kinds of differences in which nothing is emitted."""
