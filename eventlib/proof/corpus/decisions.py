"""A decision of a corpus: in which state, on what, what was emitted; decided again by the current code."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from eventlib.model.event import Event, contract_of, key_of
from eventlib.model.kept_error import kept_reason
from eventlib.model.record import Record
from eventlib.proof.revisions import lines_run
from eventlib.replay.comparison import Decision, Describer, input_of, same
from eventlib.replay.context import Taken
from eventlib.replay.partition_buffer import Item
from eventlib.replay.report import Difference, Input, Kind


class CorpusDecision(Taken):
    """One decision, and how the current code makes it again."""

    __slots__ = ()

    @property
    def is_read(self) -> bool:
        """Whether the current code can read all that was emitted."""
        return len(self.events) == len(self.emitted)

    @property
    def events(self) -> tuple[Event, ...]:
        """The events that were emitted, and can be read."""
        return tuple(event for _, event in self.emitted if isinstance(event, Event))

    @property
    def input(self) -> str:
        """The type of the event, or the name of the deadline."""
        return self.deadline if self.event is None else contract_of(type(self.event)).type

    @property
    def handler(self) -> str:
        """The handler under the current code, as `service/decider.handler`."""
        if self.event is None:
            declared = self.decider.deadlines.get(self.deadline)
            name = self.deadline if declared is None or declared.handler is None else declared.handler.name
        else:
            handler = self.decider.handlers.get(type(self.event))
            if handler is None:
                return f"{self.source} on {self.input}"
            name = handler.name
        return f"{self.source}.{name}"

    def decided(self) -> Sequence[Event]:
        """Return what the current code emits. Raises: what it raises."""
        state = self.decider.initial if self.state is None else self.state
        if self.event is None:
            return self.decider.answer_deadline(self.deadline, state, self.meta)
        evolved = self.decider.evolved(state, self.event, self.meta)
        if evolved is None and not self.decider.may_forget:
            raise self.decider.lost(self.event)
        return self.decider.answer(self.decider.initial if evolved is None else evolved, self.event, self.meta)

    def difference(self, describer: Describer) -> Difference | None:
        """Return how the current code decides otherwise; None when it does not."""
        kind: Kind | None = None
        now: Sequence[Event] = ()
        why = ""
        then = self.emitted
        if self.event is not None and type(self.event) not in self.decider.handlers:
            kind, why = "unhandled", "no decider handles this now"
        elif self.event is None and self.deadline not in self.decider.deadlines:
            kind, why = "no-deadline", "the current code has no such deadline"
        else:
            try:
                now = self.decided()
            except Exception as error:  # noqa: BLE001  whatever the current code raises is a difference
                kind, why = "raises", kept_reason(error, personal=False)
        if kind is None and same(now, then):
            return None
        given = (
            Input(self.deadline, self.meta.id) if self.event is None else input_of(*item_of(self.event, self.meta.id))
        )
        return describer.difference(Decision(self.handler, self.key, self.at_ms, given, then, now, kind, why))

    def lines(self, directory: Path) -> Iterator[tuple[str, int]]:
        """Yield the lines of the application in a directory that run for it."""
        with lines_run(directory) as found, suppress(Exception):  # the lines up to there have run
            self.decided()
        yield from ((name, line) for name, lines in found.items() for line in lines)


def item_of(event: Event, event_id: str = "") -> Item:
    """Return an event with a record that has its topic and key."""
    contract, key = contract_of(type(event)), key_of(event)
    value = None if key is None else key.encode()
    return Record(contract.topic.name, 0, 0, 0, value, b"", event_id or None, contract.type), event
