"""The simulated operator: sees what is parked on the changelogs, and acts on it after a while.

The first request is an edit that changes nothing. Then, inputs that a bug still breaks are discarded, and all else is
retried.
"""

from collections import Counter
from typing import NamedTuple

from eventlib.codec.base import Codec
from eventlib.log.record import Record
from eventlib.model.service import Service
from eventlib.runtime.parking.control import ParkedInputDiscarded, ParkedInputEdited, ParkedRetryRequested, Request
from eventlib.runtime.records import EFFECT, PARKED, ParkedKey


class Parked(NamedTuple):
    """A decider's parked key, or a parked effect (`decider` is empty then, `key` its request's id)."""

    service: str
    partition: int
    decider: str
    key: str

    def __str__(self) -> str:
        return f"{self.decider or 'effect'} {self.key} of {self.service}"


class ParkingTracker:
    """Tracks what is parked, and how often a retry was requested for each."""

    def __init__(self) -> None:
        self.parked: dict[Parked, None] = {}
        self.asked = Counter[Parked]()
        self._notes: dict[Parked, bytes] = {}

    def apply(self, service: str, record: Record) -> Parked | None:
        """Apply a changelog record; return what it parks, if that was not parked before."""
        key = (record.key or b"").decode()
        if key.startswith(PARKED):
            decider, of = key.removeprefix(PARKED).split("/", 1)
            parked, waits = Parked(service, record.partition, decider, of), record.value is not None
        elif key.startswith(EFFECT):
            parked = Parked(service, record.partition, "", key.removeprefix(EFFECT))
            waits = record.value is not None and any(name == "parked_reason" for name, _ in record.headers)
        else:
            return None
        if not waits:
            self.parked.pop(parked, None)
            return None
        self._notes[parked] = record.value or b""
        if parked in self.parked:
            return None
        self.parked[parked] = None
        return parked

    def note(self, parked: Parked, codec: Codec) -> ParkedKey:
        """Return a task's last record of a parked key."""
        return codec.decode(ParkedKey, self._notes[parked])

    def request_for(self, parked: Parked, first: Record | None, *, is_broken: bool) -> Request:
        """Return the operator's request; `first` is the input that the key's others wait behind, if it is one."""
        name = parked.decider, parked.key
        if first is None or first.value is None or self.asked[parked] > _GIVES_UP_AFTER:
            return ParkedRetryRequested(*name, _WHO)
        if self.asked[parked] == _GIVES_UP_AFTER and is_broken:
            return ParkedInputDiscarded(*name, first.event_id, _WHO, "it cannot be handled")
        if self.asked[parked] == 0:
            return ParkedInputEdited(*name, first.event_id, first.type or "", first.value, _WHO)
        return ParkedRetryRequested(*name, _WHO)

    def request(self, parked: Parked, service: Service, value: bytes, kind: str, at_ms: int) -> Record:
        """Return the record of the operator's request; each is a new one."""
        self.asked[parked] += 1
        event_id = f"request {self.asked[parked]} about {parked}"
        return Record(
            service.control.name,
            parked.partition,
            -1,
            at_ms,
            parked.key.encode(),
            value,
            event_id,
            kind,
            "outside",
            parked.key,
            correlation_id=event_id,
        )


_WHO = "the simulator"
_GIVES_UP_AFTER = 1
