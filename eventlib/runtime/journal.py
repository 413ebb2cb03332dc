"""Collects what a transaction did, in order, as the steps of a journal entry."""

from collections.abc import Sequence

from eventlib.log.port import Record
from eventlib.runtime.records import Step


class Steps:
    """The steps of one transaction; neighbouring inputs of a topic become one run.

    `before` are the runs that were passed since the last transaction. `next` holds the offset that follows the last
    input of each topic.
    """

    def __init__(self, before: Sequence[Step] = ()) -> None:
        self._steps: list[Step] = [*before]
        self._topic = ""
        self._first = self._last = -1
        self.acts = 0
        self.next: dict[str, int] = {}

    def took(self, record: Record) -> None:
        """Note an input."""
        topic, _, offset, *_ = record
        if topic != self._topic or offset != self._last + 1:
            self._end_run()
            self._topic, self._first = topic, offset
        self._last = offset
        self.next[topic] = offset + 1

    def went_past(self, topic: str, first: int, last: int) -> None:
        """Note offsets of a topic that were gone past, whatever stands there."""
        self._end_run()
        self._topic, self._first, self._last = topic, first, last
        self.next[topic] = last + 1

    def act(self, step: Step) -> None:
        """Note something that was done beside taking inputs."""
        self.acts += 1
        self._end_run()
        self._steps.append(step)

    def all(self) -> tuple[Step, ...]:
        """Return the steps so far."""
        self._end_run()
        return tuple(self._steps)

    def cut(self) -> tuple[Step, ...]:
        """Return the steps so far, and go on without them."""
        steps, self._steps = self.all(), []
        return steps

    def _end_run(self) -> None:
        if not self._topic:
            return
        first, before = self._first, self._steps[-1] if self._steps else None
        if before is not None and before.kind == "run" and (before.topic, before.last + 1) == (self._topic, first):
            first = before.first
            self._steps.pop()
        self._steps.append(Step("run", self._topic, first, self._last))
        self._topic = ""
