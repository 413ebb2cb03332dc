"""What this process's code would make of what is parked: handlers are pure, so nothing happens, and nothing is written."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from eventlib.errors import EventlibError, LogUnavailable
from eventlib.eventlog import EventLog
from eventlib.model.decider import Decider
from eventlib.model.event import Event, contract_of
from eventlib.queries.parked import Parking, WaitingInput, waiting_inputs
from eventlib.queries.state import newest_of_key
from eventlib.runtime.emit import RecordBuilder, cause_of_deadline, cause_of_input, meta_of_deadline
from eventlib.runtime.keyed_state import KeyedState, entry_of
from eventlib.runtime.parking.parked import Failure
from eventlib.runtime.records import state_key
from eventlib.values import now_ms

MOST_INPUTS = 50
Prospect = Literal["is handled", "parks again", "asks again", "unknown"]


@dataclass(frozen=True, slots=True)
class Preview:
    """What a retry of a parked key or effect would come to, as its state is now.

    `emitted` are the events of all inputs that would be handled, in order; `handled` counts these inputs, of `waiting`.
    `reason` says why it parks again, or why that is not known: an effect asks the outside world, which is not asked here.
    """

    parking: Parking
    prospect: Prospect
    handled: int
    waiting: int
    emitted: Sequence[Event]
    reason: str = ""
    traceback: str = ""


async def preview(log: EventLog, parking: Parking, instead: Event | None = None) -> Preview:
    """Return what would come of a retry, of at most the first 50 inputs; or of an edit that puts `instead` in the first's place.

    Guarantee: writes nothing, and asks nothing outside. Another input may be first by the time of the act.
    Raises: ContractError when the state cannot be read; LogUnavailable and the like.
    """
    if parking.id is not None:
        effects = log.choreography.decider(parking.decider).effects.items()
        asks = (effect.asks for request, effect in effects if contract_of(request).type == parking.effect)
        reason = f"{next(asks, 'the outside world')} decides: it is asked again, under the same key"
        return Preview(parking, "asks again", 0, 1, [], reason)
    waiting = await waiting_inputs(log, parking, MOST_INPUTS)
    trial = await _Trial.of(log, parking)
    handled = 0
    for position, each in enumerate(waiting):
        event = instead if position == 0 and instead is not None else each.reading.value
        failure = trial.tried(each, event)
        if failure is not None:
            return Preview(
                parking, "parks again", handled, parking.waiting, trial.emitted, failure.reason, failure.traceback
            )
        handled += 1
    if not waiting:
        return Preview(parking, "unknown", 0, 0, [], "nothing waits any more")
    return Preview(parking, "is handled", handled, parking.waiting, trial.emitted)


class _Trial:
    """A key's state, to which its inputs are given one after the other."""

    def __init__(self, log: EventLog, parking: Parking, entry: KeyedState) -> None:
        service = log.choreography.service(parking.service)
        self.emitted: list[Event] = []
        self._key = parking.key
        self._decider: Decider[Any] = log.choreography.decider(parking.decider)
        self._builder = RecordBuilder(self._decider, service.emits_as, {}, log.codec)
        self._external = log.external.topics
        self._entry = entry
        self._now = now_ms()

    @classmethod
    async def of(cls, log: EventLog, parking: Parking) -> "_Trial":
        service, decider = log.choreography.service(parking.service), log.choreography.decider(parking.decider)
        name = state_key(decider.name, parking.key)
        record = await newest_of_key(log, service.changelog.name, parking.partition, name)
        entry = KeyedState() if record is None else await log.codec.known(lambda: entry_of(record, decider, log.codec))
        return cls(log, parking, entry)

    def tried(self, waiting: WaitingInput, event: object) -> Failure | None:
        """Handle an input; return why that fails, or None."""
        try:
            if not waiting.record.topic:
                state, emitted = self._deadline(waiting)
            elif isinstance(event, Event):
                state, emitted = self._input(waiting, event)
            else:
                return Failure(waiting.reading.error or "the input cannot be read")
        except LogUnavailable:
            raise
        except Exception as error:  # noqa: BLE001  whatever a handler raises is what a retry would park it for
            is_withheld = self._decider.is_personal and not isinstance(error, EventlibError)
            return Failure.of(error, withheld=is_withheld)
        self.emitted += emitted
        self._entry = self._entry.replace(state=state, sequence=self._entry.sequence + len(emitted))
        return None

    def _input(self, waiting: WaitingInput, event: Event) -> tuple[Any, list[Event]]:
        record, entry = waiting.record, self._entry
        is_request = contract_of(type(event)).request
        cause = cause_of_input(record, entry if is_request else None, external=record.topic in self._external)
        emission = self._builder.emission(self._key, entry.sequence, cause, self._now)
        before = self._decider.initial if entry.state is None else entry.state
        return self._decider.decide(before, event, record.meta(), emission.meta)

    def _deadline(self, waiting: WaitingInput) -> tuple[Any, list[Event]]:
        entry, name = self._entry, waiting.record.type or ""
        cause = cause_of_deadline((self._decider.name, self._key), name, waiting.record.timestamp_ms, entry)
        meta = meta_of_deadline(cause, self._now, self._builder.source, self._key)
        emission = self._builder.emission(self._key, entry.sequence, cause, self._now)
        return self._decider.pass_deadline(name, entry.state, meta, emission.meta)
