"""The requests of this process whose answers come later: what a wait is measured from."""

from collections import OrderedDict
from typing import NamedTuple

from eventlib.model.effect import Effect
from eventlib.model.event import Event, contract_of
from eventlib.model.record import Record
from eventlib.model.service import Service
from eventlib.model.signatures import name_of
from eventlib.runtime.awaited import CAME, NEVER, OVER
from eventlib.runtime.transaction import ProcessingSpan, Transaction

_MOST = 100_000
_ENDS = frozenset({CAME, NEVER, OVER})


class AwaitedAnswer(NamedTuple):
    """An effect, and what became of the answer that it awaits; `request` is known where this process made it."""

    effect: str
    outcome: str
    request: Record | None


class AwaitedRequests:
    """Remembers the requests that wait, in bounded memory: a task that moves, or a restart, leaves some unknown."""

    def __init__(self) -> None:
        self._asked: OrderedDict[tuple[str, str], Record] = OrderedDict()
        self._requests: dict[str, frozenset[type[Event]]] = {}

    def note(self, service: Service, transaction: Transaction) -> None:
        """Remember what a transaction requests."""
        requests = self._requests.get(service.name)
        if requests is None:
            found = (effect for decider in service.deciders for effect in decider.effects.values() if effect.awaits)
            requests = self._requests[service.name] = frozenset(effect.request for effect in found)
        if requests:
            for record, event in transaction.requested:
                if type(event) in requests:
                    self._asked[record.source or "", record.subject or ""] = record
            while len(self._asked) > _MOST:
                self._asked.popitem(last=False)

    def answered(self, service: Service, step: ProcessingSpan) -> AwaitedAnswer | None:
        """Return the effect that a step is about; None when the effect's own answer was all. Ends are forgotten."""
        effect = _effect_of(service, step)
        place = f"{service.emits_as}/{step.decider}", step.key
        asked = self._asked.get(place)
        is_its = effect is not None and asked is not None and asked.type == contract_of(effect.request).type
        if is_its and step.awaited in _ENDS:
            del self._asked[place]
        if effect is None or step.awaited == OVER:
            return None
        return AwaitedAnswer(name_of(effect.ask.call), step.awaited, asked if is_its else None)


def _effect_of(service: Service, step: ProcessingSpan) -> Effect | None:
    effects = [e for d in service.deciders if d.name == step.decider for e in d.effects.values() if e.awaits]
    if step.record is None:
        return next((effect for effect in effects if effect.within == step.deadline), None)
    name = step.record.type
    return next((e for e in effects if any(contract_of(event).type == name for event in e.leads_to)), None)
