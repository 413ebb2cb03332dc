"""Which states of a task are not known any more, since something that they follow from is damaged."""

from collections.abc import Sequence

from eventlib.codec.base import LostSchema
from eventlib.model.event import contract_of
from eventlib.model.service import Service
from eventlib.replay.context import ReplayContext
from eventlib.replay.journal_steps import Consumed
from eventlib.replay.partition_buffer import Item


class DoubtfulStates:
    """The states of one task that are not known, by decider (`service/decider`) and key: nothing in them is compared.

    `lacks` is set while a transaction is replayed of which some outputs are damaged: whose they were cannot be known.
    """

    def __init__(self, service: Service, partition: int, context: ReplayContext) -> None:
        self._service = service
        self._partition = partition
        self._context = context
        self._keys = set[tuple[str, str | None]]()
        self.lacks = False

    @property
    def all_known(self) -> bool:
        """Whether there are none."""
        return not self._keys

    def trusts(self, source: str, key: str) -> bool:
        """Return whether a key's state depends on nothing that is damaged; where outputs are, it does from now on."""
        if self.lacks:
            self._keys.add((source, key))
        return not self._keys or self._keys.isdisjoint([(source, key), (source, None)])

    def lose(self, handler: str, source: str, key: str) -> None:
        """Trust no state of a key any more: an input or an output of it cannot be read since a schema is damaged."""
        self._keys.add((source, key))
        tally = self._context.tally
        tally.damaged.update(map(str, self._context.log.codec.registry.damaged))
        tally.notes[f"{handler} is not compared where a schema is damaged, nor what follows under the same key"] = None

    def take(self, run: Consumed) -> None:
        """Trust no state any more of deciders that handled a damaged input of a run: of which key, cannot be known."""
        for offset in self._context.window.damaged_in((run.topic, self._partition)):
            if not run.first <= offset <= run.last:
                continue
            for decider in self._service.deciders:
                is_refused = offset == run.last and decider.name in run.refused
                if not is_refused and any(contract_of(each).topic.name == run.topic for each in decider.handlers):
                    source = f"{self._service.emits_as}/{decider.name}"
                    self._keys.add((source, None))
                    place = f"{run.topic}/{self._partition}/{offset}"
                    note = f"{source} is compared in partition {self._partition} up to {place}, which is damaged"
                    self._context.tally.notes[note] = None


def has_lost(emitted: Sequence[Item]) -> bool:
    """Return whether the schema of one of these events is damaged."""
    return any(isinstance(event, LostSchema) for _, event in emitted)
