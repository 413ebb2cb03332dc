"""Collects what a transaction did, in order, as the steps of a journal entry."""

from eventlib.log.port import Record
from eventlib.runtime.records import Step


class Steps:
    """The steps of one transaction; neighbouring inputs of a topic become one run."""

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._topic = ""
        self._first = 0
        self._last = 0
        self.inputs = 0
        self.acts = 0

    def input(self, record: Record) -> None:
        """Note that an input was handled."""
        self.inputs += 1
        if record.topic != self._topic or record.offset != self._last + 1:
            self._end_run()
            self._topic, self._first = record.topic, record.offset
        self._last = record.offset

    def act(self, step: Step) -> None:
        """Note something that was done beside handling inputs, or about the last input."""
        self.acts += 1
        self._end_run()
        self._steps.append(step)

    def all(self) -> tuple[Step, ...]:
        """Return the steps so far."""
        self._end_run()
        return tuple(self._steps)

    def _end_run(self) -> None:
        if self._topic:
            self._steps.append(Step("run", self._topic, self._first, self._last))
        self._topic = ""
