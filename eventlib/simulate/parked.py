"""The person who looks after what is parked: sees it on the changelogs, and asks for a retry after a while."""

from collections import Counter
from typing import NamedTuple

from eventlib.codec.port import Codec
from eventlib.log.port import Record
from eventlib.runtime.control import ParkedRetryRequested
from eventlib.runtime.records import EFFECT, PARKED
from eventlib.service import Service


class Parked(NamedTuple):
    """A decider's key, or an effect (`decider` is empty then, `key` its request's id), that waits for a person."""

    service: str
    partition: int
    decider: str
    key: str

    def __str__(self) -> str:
        return f"{self.decider or 'effect'} {self.key} of {self.service}"


class Desk:
    """Knows what is parked just now, and how often somebody asked for a retry of what ever was."""

    def __init__(self) -> None:
        self.parked: dict[Parked, None] = {}
        self.asked = Counter[Parked]()

    def hear(self, service: str, record: Record) -> Parked | None:
        """Take a changelog record in; return what it parks, when that was not parked before."""
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
        if parked in self.parked:
            return None
        self.parked[parked] = None
        return parked

    def retry(self, parked: Parked, service: Service, codec: Codec, at_ms: int) -> Record:
        """Return the request to handle something again; each is a new one."""
        self.asked[parked] += 1
        request = ParkedRetryRequested(parked.decider, parked.key, "the simulator")
        event_id = f"retry {self.asked[parked]} of {parked}"
        return Record(
            service.control.name,
            parked.partition,
            -1,
            at_ms,
            parked.key.encode(),
            codec.encode(request),
            event_id,
            type(request).__name__,
            "outside",
            parked.key,
            correlation_id=event_id,
        )
