"""The simulated operator: sees what is parked on the changelogs, and acts on it after a while; pauses, and resumes.

The first request about what is parked is an edit that changes nothing. Then, inputs that a bug still breaks are
discarded, and all else is retried, once it is not paused.
"""

from collections import Counter
from dataclasses import replace
from typing import NamedTuple

from eventlib.codec.base import Codec
from eventlib.model.evolution import wire_name_of
from eventlib.model.record import Record
from eventlib.model.service import Service
from eventlib.queries.pauses import PauseTarget
from eventlib.runtime.parking.control import (
    ParkedInputDiscarded,
    ParkedInputEdited,
    ParkedRetryRequested,
    PauseRequested,
    Request,
    ResumeRequested,
)
from eventlib.runtime.records import ParkedKey, Pause, changelog_key


class Parked(NamedTuple):
    """A decider's parked key, or a parked effect (`decider` is empty then, `key` its request's id)."""

    service: str
    partition: int
    decider: str
    key: str

    def __str__(self) -> str:
        return f"{self.decider or 'effect'} {self.key} of {self.service}"


class ParkingTracker:
    """Tracks what is parked, and what was requested about each: how often at all, and since it was last parked (`tries`)."""

    def __init__(self) -> None:
        self.parked: dict[Parked, None] = {}
        self.asked = Counter[Parked]()
        self.tries = Counter[Parked]()
        self._notes: dict[Parked, bytes] = {}

    def apply(self, service: str, record: Record) -> Parked | None:
        """Apply a changelog record; return what it parks, if that was not parked before."""
        kind, decider, of, _ = changelog_key((record.key or b"").decode())
        parked = Parked(service, record.partition, decider, of)
        if kind == "parked":
            waits = record.value is not None
        elif kind == "effect":
            waits = record.value is not None and any(name == "parked_reason" for name, _ in record.headers)
        else:
            return None
        if not waits:
            self.parked.pop(parked, None)
            if kind == "parked":  # a retry takes an effect out, whether it helps or not
                self.tries.pop(parked, None)
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
        self.tries[parked] += 1
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
_PER_SECOND = (20.0, 200.0)


class PauseTracker:
    """Tracks what the operator has paused, and what tasks hold back by their changelogs."""

    def __init__(self) -> None:
        self.targets = dict[PauseTarget, None]()
        self._held = dict[tuple[str, int, str], PauseTarget]()
        self._asked = 0

    def apply(self, service: str, record: Record, codec: Codec) -> None:
        """Apply a changelog record."""
        key = (record.key or b"").decode()
        if changelog_key(key).kind != "pause":
            return
        if record.value is None:
            self._held.pop((service, record.partition, key), None)
        else:
            pause = codec.decode(Pause, record.value)
            self._held[service, record.partition, key] = PauseTarget.about(service, pause)

    def holds(self, parked: Parked) -> bool:
        """Tell whether what is parked may be paused: then it is not retried."""
        return any(each.service == parked.service and each.kind not in {"effect", "limit"} for each in self.targets)

    @property
    def held(self) -> list[PauseTarget]:
        """What tasks hold back."""
        return [*dict.fromkeys(self._held.values())]

    @property
    def stuck(self) -> list[PauseTarget]:
        """What tasks hold back although the operator has resumed it: a key's service was paused then."""
        return [each for each in self.held if each not in self.targets]

    def requests(self, target: PauseTarget, service: Service, codec: Codec, at_ms: int) -> list[Record]:
        """Return the operator's requests to pause, or to resume what is paused, one for each task."""
        self._asked += 1
        kind = ResumeRequested if target in self.targets else PauseRequested
        self.targets.pop(target) if target in self.targets else self.targets.setdefault(target)
        event_id = f"request {self._asked} about pauses"
        request = kind(*target.fields, _WHO, "a test", target.limit)
        if isinstance(request, PauseRequested) and target.limit:
            request = replace(request, per_second=_PER_SECOND[self._asked % len(_PER_SECOND)])
        value, key = codec.encode(request), target.key or ""
        return [
            Record(
                *(service.control.name, partition, -1, at_ms, key.encode(), value, f"{event_id} {partition}"),
                wire_name_of(kind),
                "outside",
                key,
                correlation_id=event_id,
            )
            for partition in target.partitions(service)
        ]
