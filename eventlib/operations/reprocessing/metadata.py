"""What a rerun notes of itself in its own control topic: its service, who began it and why, and who took its states over.

Reruns can be listed from the log alone, by these; see `listing`.
"""

from dataclasses import dataclass
from secrets import token_hex

from eventlib.errors import ContractError, WiringError
from eventlib.eventlog import EventLog
from eventlib.log.reading import records_between
from eventlib.model.evolution import wire_name, wire_name_of
from eventlib.model.record import Record
from eventlib.model.service import Service
from eventlib.model.topic import Topic
from eventlib.queries.task_metadata import decoded
from eventlib.runtime.records import code_version
from eventlib.runtime.runtime import prepare_own
from eventlib.state.base import Store, Stores
from eventlib.values import now_ms, time_of, to_ms


@dataclass(frozen=True, slots=True)
class RerunSpec:
    """The options of a rerun, and its reason.

    Up to `since_ms` in the service's history it repeats the recorded decisions, and from then on the current code decides;
    at `until_ms` it ends (0: at the service's end). With `follow` it continues with the service's new inputs.
    """

    why: str
    since_ms: int = 0
    until_ms: int = 0
    follow: bool = False

    @classmethod
    def of(cls, why: str, since: str | None, until: str | None, *, follow: bool = False) -> "RerunSpec":
        """Return the options for two times as they were written, if they were. Raises: ContractError for an invalid time."""
        since_ms, until_ms = (0 if at is None else to_ms(time_of(at)) for at in (since, until))
        return cls(why, since_ms, until_ms, follow)


@wire_name("Note")
@dataclass(frozen=True)
class RerunMetadata:
    """The record of a rerun: the service that it runs again, by which code, and who wants that and why.

    `token` is its own for ever, `begun_ms` when it was begun. From `since_ms` on today's code decides, at `until_ms` it
    ends (0: at the service's own end).
    """

    service: str = ""
    token: str = ""
    code_version: str = ""
    begun_ms: int = 0
    since_ms: int = 0
    until_ms: int = 0
    why: str = ""


@wire_name("SwitchNote")
@dataclass(frozen=True)
class CutoverMetadata:
    """A task of the service has taken over the rerun's states: when, who wanted that, and why."""

    at_ms: int = 0
    why: str = ""


class RerunStores(Stores):
    """Local stores of a rerun, and of its copies of the service's state: never those that the service itself uses.

    An earlier rerun under the same name had its own.
    """

    def __init__(self, stores: Stores, name: str, token: str) -> None:
        self._stores = stores
        self._name = name
        self._token = token

    def open(self, service: str, partition: int, epoch: int, log_id: str) -> Store:
        """See `Stores.open`."""
        name = service if service == self._name else f"{self._name}.{service}"
        return self._stores.open(name, partition, epoch, f"{log_id}/{self._token}")

    def close(self) -> None:
        """See `Stores.close`."""
        self._stores.close()


def topics_of(run: Service) -> list[Topic]:
    """Return the topics that only a rerun writes."""
    emitted = [run.output_topic(topic) for topic in run.outputs]
    return [*run.own_topics, *emitted, *(topic.latest_topic for topic in emitted if topic.latest)]


async def metadata_of(log: EventLog, name: str) -> RerunMetadata | None:
    """Return a rerun's metadata; None when there is none under this name."""
    control = f"{name}.control"
    record = await _newest(log, control, 0, RerunMetadata) if control in await log.port.topics() else None
    return None if record is None else await decoded(log, RerunMetadata, record)


async def begin_or_resume(log: EventLog, service: Service, name: str, wanted: RerunSpec) -> RerunMetadata:
    """Return a rerun's metadata, after beginning the rerun if it is new.

    Raises: WiringError for a name that is taken; ContractError when it was begun by other code, or up to another time.
    """
    run = service.under(name)
    found = await metadata_of(log, name)
    if found is None:
        await _refuse_taken(log, run)
        found = await _begun(log, service, run, wanted)
    if found.service != service.name:
        raise WiringError(f"{name} is a rerun of {found.service}: give this one of {service.name} another name")
    version = code_version(log.choreography)
    if found.code_version != version:
        raise ContractError(
            f"{name} was begun by code {found.code_version}, and this is {version}: a rerun is one code's work. Delete it "
            f"with `eventlib rerun drop {service.name} {name}`, or give the new one another name"
        )
    if (found.since_ms, found.until_ms) != (wanted.since_ms, wanted.until_ms):
        raise ContractError(f"{name} was begun with another --since or --until: leave them so, or give another name")
    await prepare(log, run)
    return found


async def prepare(log: EventLog, run: Service) -> None:
    """Create the topics and register the schemas of a rerun's outputs, where missing."""
    await log.prepare()
    await log.port.create_topics(topics_of(run))
    await prepare_own(log, [run])
    await log.codec.prepare([(run.control.name, RerunMetadata), (run.control.name, CutoverMetadata)])


async def switched_tasks(log: EventLog, run: Service) -> dict[int, CutoverMetadata]:
    """Return which tasks of the service have taken over a rerun's states, and when."""
    found = dict[int, CutoverMetadata]()
    for task in range(run.partitions):
        record = await _newest(log, run.control.name, task, CutoverMetadata)
        if record is not None:
            found[task] = await decoded(log, CutoverMetadata, record)
    return found


async def _refuse_taken(log: EventLog, run: Service) -> None:
    # An empty control topic may be left over from an interrupted begin.
    there = (each for each in await log.port.topics() if each != run.control.name)
    taken = sorted(each for each in there if each.startswith(f"{run.name}."))
    if taken or any(run.name == each.name for each in log.choreography.services):
        what = f"there is a topic {taken[0]}" if taken else "a service has it"
        raise WiringError(f"{run.name!r} cannot be a rerun's name, since {what}: give it another one")


async def _begun(log: EventLog, service: Service, run: Service, wanted: RerunSpec) -> RerunMetadata:
    await log.port.create_topics([run.control])
    await log.codec.prepare([(run.control.name, RerunMetadata)])
    version, times = (code_version(log.choreography), (now_ms(), wanted.since_ms, wanted.until_ms))
    note = RerunMetadata(service.name, token_hex(8), version, *times, wanted.why)
    claim = await log.port.seize(run.name, 0)
    if (others := await metadata_of(log, run.name)) is not None:
        return others  # another process was quicker
    await log.port.append([metadata_record(log, run, 0, note, note.begun_ms)], claim)
    return note


def metadata_record(
    log: EventLog, run: Service, partition: int, note: RerunMetadata | CutoverMetadata, at_ms: int
) -> Record:
    """Return metadata as a record."""
    return Record(run.control.name, partition, -1, at_ms, None, log.codec.encode(note), type=wire_name_of(type(note)))


async def _newest(
    log: EventLog, control: str, partition: int, kind: type[RerunMetadata | CutoverMetadata]
) -> Record | None:
    found: Record | None = None
    async for record in records_between(log.port, (control, partition), 0):
        found = record if record.type == wire_name_of(kind) else found
    return found
