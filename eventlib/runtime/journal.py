"""Collects what a transaction did, in order, as the steps of a journal entry."""

from collections.abc import Sequence

from eventlib.log.port import Record
from eventlib.runtime.records import Step


class Steps:
    """The steps of one transaction; neighbouring inputs of a topic become one run.

    `before` are the runs that were passed since the last transaction. `next` holds the offset that follows the last
    input of each topic.
    """

    def __init__(self, inputs: Sequence[Record] = (), before: Sequence[Step] = ()) -> None:
        self._inputs = inputs
        self._noted = 0
        self._steps: list[Step] = [*before]
        self.acts = 0
        self.next: dict[str, int] = {}

    def act(self, step: Step, *, inputs: int) -> None:
        """Note something that was done beside handling inputs, after the first `inputs` of them."""
        self.acts += 1
        self._note_runs(inputs)
        self._steps.append(step)

    def all(self, inputs: int) -> tuple[Step, ...]:
        """Return the steps, with the first `inputs` inputs handled."""
        self._note_runs(inputs)
        return tuple(self._steps)

    def _note_runs(self, until: int) -> None:
        inputs = self._inputs
        while self._noted < until:
            first = last = inputs[self._noted]
            self._noted += 1
            while self._noted < until:
                record = inputs[self._noted]
                if record.offset != last.offset + 1 or record.topic != first.topic:
                    break
                last = record
                self._noted += 1
            self._note(Step("run", first.topic, first.offset, last.offset))
            self.next[first.topic] = last.offset + 1

    def _note(self, run: Step) -> None:
        before = self._steps[-1] if self._steps else None
        if before is not None and before.kind == "run" and (before.topic, before.last + 1) == (run.topic, run.first):
            run = Step("run", run.topic, before.first, run.last)
            self._steps.pop()
        self._steps.append(run)
