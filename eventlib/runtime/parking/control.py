"""The requests of operators to a service's tasks, on its control topic: about parked inputs and effects, pauses and limits."""

from dataclasses import dataclass, replace

from eventlib.codec.base import Codec, UnknownSchema
from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.log.base import TopicPartition, undecodable
from eventlib.model.evolution import wire_name, wire_name_of
from eventlib.model.record import Record
from eventlib.runtime.records import Pause
from eventlib.runtime.transaction import Discard, Edit, Hold


@wire_name("ParkedRetryRequested")
@dataclass(frozen=True, slots=True)
class ParkedRetryRequested:
    """An operator asks a service to handle a parked key's inputs again, in order, or a parked effect."""

    decider: str = ""
    key: str = ""
    by: str = ""
    reason: str = ""


@wire_name("ParkedInputEdited")
@dataclass(frozen=True, slots=True)
class ParkedInputEdited:
    """An operator has a parked input handled with other data, and then the inputs that wait behind it.

    The input is `event_id`, the first parked one of its key; it keeps its id, so that the events that follow name an event
    on the log as their cause. `type` is the event's, `data` its value in a record of its topic.
    """

    decider: str = ""
    key: str = ""
    event_id: str = ""
    type: str = ""
    data: bytes = b""
    by: str = ""
    reason: str = ""


@wire_name("ParkedInputDiscarded")
@dataclass(frozen=True, slots=True)
class ParkedInputDiscarded:
    """An operator gives up a parked input for good, and has the inputs handled that wait behind it; or a parked effect.

    Of an effect, `key` and `event_id` are the id of its request.
    """

    decider: str = ""
    key: str = ""
    event_id: str = ""
    by: str = ""
    reason: str = ""


@wire_name("PauseRequested")
@dataclass(frozen=True, slots=True)
class PauseRequested:
    """An operator pauses a service, a decider, an effect or a key, or sets a limit; each task gets it. Fields as in `Pause`."""

    kind: str = ""
    decider: str = ""
    key: str = ""
    effect: str = ""
    by: str = ""
    reason: str = ""
    limit: str = ""
    per_second: float = 0.0
    burst: int = 0
    concurrent: int = 0


@wire_name("ResumeRequested")
@dataclass(frozen=True, slots=True)
class ResumeRequested:
    """An operator resumes what was paused under these names."""

    kind: str = ""
    decider: str = ""
    key: str = ""
    effect: str = ""
    by: str = ""
    reason: str = ""
    limit: str = ""


PauseRequest = PauseRequested | ResumeRequested
Request = ParkedRetryRequested | ParkedInputEdited | ParkedInputDiscarded | PauseRequest
REQUESTS: tuple[type[Request], ...] = (
    ParkedRetryRequested,
    ParkedInputEdited,
    ParkedInputDiscarded,
    PauseRequested,
    ResumeRequested,
)
"""All that may stand on a control topic, but for what a rerun notes about itself."""
BULK = "bulk"
"""The header of requests that were made together: a name of that act, and the cause of what it is about if there is one."""
_BY_TYPE = {wire_name_of(each): each for each in REQUESTS}


def read_request(record: Record, codec: Codec) -> Request:
    """Return an operator's request. Raises: UnknownSchema; UndecodableRecord when the record is not a request."""
    kind = _BY_TYPE.get(record.type or wire_name_of(ParkedRetryRequested))
    if kind is None:
        raise undecodable(record, f"{record.type} is not a request that this version of eventlib knows")
    try:
        return codec.decode(kind, record.value or b"")
    except ContractError as error:
        raise undecodable(record, str(error)) from error


async def request_in(record: Record, codec: Codec) -> Request:
    """Return what an operator asks for, after learning its schema if it is new. Raises: UndecodableRecord."""
    try:
        return await codec.known(lambda: read_request(record, codec))  # an operator with a newer version may have asked
    except UnknownSchema as error:
        raise undecodable(record, str(error)) from error


async def edit_at(log: EventLog, place: TopicPartition, offset: int) -> Edit:
    """Return the edit at an offset of a control topic. Raises: ContractError when it is no longer there."""
    records = await log.port.read(*place, offset, 1)
    if records and records[0].offset == offset:
        edit = amendment_in(await request_in(records[0], log.codec), offset)
        if isinstance(edit, Edit):
            return edit
    raise ContractError(f"{place[0]}/{place[1]}/{offset} should be the edit of a parked input, and is not there")


def amendment_in(request: Request, offset: int) -> Edit | Discard | None:
    """Return what the request at an offset changes about a parked input; None when it changes nothing."""
    match request:
        case ParkedInputEdited():
            return Edit(offset, request.event_id, request.type, request.data, _why(request.by, request.reason))
        case ParkedInputDiscarded():
            return Discard(offset, request.event_id, _why(request.by, request.reason))
        case _:
            return None


def hold_in(request: PauseRequest) -> Hold:
    """Return the pause that a request begins or ends."""
    pause = Pause(
        request.kind, request.decider, request.key, request.effect, request.by, request.reason, limit=request.limit
    )
    if isinstance(request, ResumeRequested):
        return Hold(pause, ends=True)
    numbers = replace(pause, per_second=request.per_second, burst=request.burst, concurrent=request.concurrent)
    return Hold(numbers, ends=False)


def _why(by: str, reason: str) -> str:
    return f"{by}: {reason}" if reason else by
