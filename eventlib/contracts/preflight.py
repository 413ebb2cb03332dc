"""The gate: what would be wrong if today's code were deployed, and registering what is right."""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from eventlib.codec.registry import Registry, Version
from eventlib.codec.wire_format import HEADER_BYTES
from eventlib.contracts.declared import LEVELS, Declared, declared, level_of
from eventlib.contracts.problem import Problem, field_at, remedy_of
from eventlib.errors import ContractError, EventlibError, UndecodableRecord
from eventlib.eventlog import EventLog
from eventlib.log.reading import chunks
from eventlib.model.record import Record
from eventlib.registry.compatibility import Level, SchemaType, unreadable
from eventlib.registry.parsing import InvalidSchema, Parsed, parse
from eventlib.runtime.records import state_key
from eventlib.runtime.runtime import prepare_own

# --- compares what a choreography declares with every version that was ever registered

NEW_VERSION = "NEW_CONTRACT_VERSION"


async def compared(registry: Registry, each: Declared) -> list[Problem]:
    """Return what is wrong with an event or a state, compared with every version of its subject."""
    versions = await registry.versions(each.subject)
    return list(dict.fromkeys(_found(each, versions, await level_of(registry, each))))


def _found(each: Declared, versions: Sequence[Version], level: Level) -> Iterator[Problem]:
    newest = max((each.version_in(version) for version in versions), default=each.version)
    if newest < each.version and level.forward:
        yield Problem(
            each.name,
            each.kind,
            f"version {versions[-1].version}",
            "",
            NEW_VERSION,
            f"its upcasters make it version {each.version} of its contract, which older code cannot read",
            f"declare that it is intended: eventlib schemas epoch {each.name}",
        )
    others = [version for version in versions if version.schema != each.schema]
    alike = [version for version in others if each.version_in(version) == each.version]
    for version in alike if level.transitive or each.version > 1 else alike[-1:]:
        yield from _against(each, version, level)


def _against(each: Declared, version: Version, level: Level) -> Iterator[Problem]:
    against = f"version {version.version}"
    if version.schema.kind != each.schema.kind:
        what = f"it was {version.schema.kind}, and is {each.schema.kind}"
        remedy = f"keep the format, or use a new topic in the place of {each.topic}"
        yield Problem(each.name, each.kind, against, "", "SCHEMA_TYPE_CHANGED", what, remedy)
        return
    try:
        mine, theirs = _parsed(each.schema), _parsed(version.schema)
    except InvalidSchema as error:
        yield Problem(each.name, each.kind, against, "", "INVALID_SCHEMA", str(error), "mend or delete that version")
        return
    if level.backward:
        yield from _unreadable(each, against, mine, theirs, backward=True)
    if level.forward:
        yield from _unreadable(each, against, theirs, mine, backward=False)


def _unreadable(each: Declared, against: str, reader: Parsed, writer: Parsed, *, backward: bool) -> Iterator[Problem]:
    who = f"today's {each.name} does not read what it wrote" if backward else f"it does not read today's {each.name}"
    for found in unreadable(reader=reader, writer=writer):
        field = field_at(reader.text, found.path)
        what = f"{who}: {found.message.partition(': ')[0]}"
        yield Problem(
            each.name, each.kind, against, field, found.rule, what, remedy_of(each, found.rule, backward=backward)
        )


def _parsed(schema: tuple[str, str]) -> Parsed:
    text, kind = schema
    return parse(SchemaType(kind), text)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong, and how much was looked at: contracts, versions of them, and records on logs."""

    problems: tuple[Problem, ...]
    contracts: int
    versions: int
    decoded: int


async def verdict(log: EventLog, archives: Sequence[EventLog] = (), *, sample: int) -> Verdict:
    """Compare every contract with all its versions, and decode up to `sample` records of each partition.

    `archives` are other places where its events stand.
    """
    await log.codec.refresh()
    every = declared(log)
    problems = [problem async for problem in _compared(log, every)]
    decoded = 0
    for each in (log, *archives) if sample else ():
        await each.codec.refresh()
        found = await sampled(each, every, sample)
        problems += found.problems
        decoded += found.decoded
    versions = [await log.codec.registry.versions(each.subject) for each in every]
    return Verdict(tuple(problems), len(every), sum(map(len, versions)), decoded)


async def register(log: EventLog) -> tuple[list[Problem], list[Version]]:
    """Register every contract that is new, and what the toolkit writes for itself; or nothing, if anything is wrong.

    Returns what is wrong, and what was registered.
    """
    await log.codec.refresh()
    every = declared(log)
    problems = [problem async for problem in _compared(log, every)]
    if problems:
        return problems, []
    return [], await _registered(log, every)


async def open_epoch(log: EventLog, each: Declared) -> Version:
    """Register the first schema of a new version of a contract, which older code cannot read.

    Raises: ContractError when today's class is not a new version.
    """
    await log.codec.refresh()
    registry = log.codec.registry
    problems = await compared(registry, each)
    if not any(problem.rule == NEW_VERSION for problem in problems):
        raise ContractError(
            f"{each.name} is version {each.version} of its contract, and no new one: what cannot be compatible becomes "
            f"a new version with an upcaster for what was written so far, @upcasts({each.name}, version={each.version})"
        )
    # A registry knows nothing of contract versions: from now on it compares with the latest schema only, and the gate
    # with all of this version.
    level = await level_of(registry, each)
    await registry.set_level(each.subject, Level.NONE)
    try:
        return (await _registered(log, [each]))[-1]
    finally:
        await registry.set_level(each.subject, level.removesuffix("_TRANSITIVE"))


async def _registered(log: EventLog, every: Sequence[Declared]) -> list[Version]:
    registry = log.codec.registry
    wanted = [(each.subject, each.schema) for each in every]
    known = await registry.ids(wanted)
    new = [want for want, number in zip(wanted, known, strict=True) if number is None]
    for each in every:
        if each.kind == "state" and each.subject in dict(new) and await registry.level(each.subject) is None:
            await registry.set_level(each.subject, LEVELS["state"])  # what a registry asks of all others is more
    await registry.register(new)
    await prepare_own(log, log.choreography.services, states=False)
    found = [await registry.versions(subject) for subject, _ in new]
    return [versions[-1] for versions in found]


async def _compared(log: EventLog, every: Sequence[Declared]) -> AsyncIterator[Problem]:
    for each in every:
        for problem in await compared(log.codec.registry, each):
            if each.kind == "event" or not await _is_gone(log, each, problem):
                yield problem


async def _is_gone(log: EventLog, each: Declared, problem: Problem) -> bool:
    """Tell whether a problem is about a version of a state that no key is in any more, since they were rebuilt."""
    if problem.rule == NEW_VERSION or each.topic not in await log.port.topics():
        return False
    unreadable = await log.codec.unreadable(each.topic, each.cls)
    versions = await log.codec.registry.versions(each.subject)
    about = {version.id for version in versions if problem.against == f"version {version.version}"}
    headers = {header: why for header, why in unreadable.items() if int.from_bytes(header[1:], "big") in about}
    return bool(headers) and await stale(log, each, headers) == 0


_SPANS = 5


@dataclass(slots=True)
class Sampled:
    """How many records were decoded, and what could not be; of each schema's records the first is shown in full."""

    decoded: int = 0
    problems: list[Problem] = field(default_factory=list)
    _told: set[tuple[str, bytes]] = field(default_factory=set)

    def failed(self, name: str, kind: str, record: Record, why: str) -> None:
        """Take note of a record that could not be decoded."""
        schema = name, (record.value or b"")[:HEADER_BYTES]
        if schema not in self._told:
            self._told.add(schema)
            place = f"{record.topic}/{record.partition}/{record.offset}"
            remedy = f"let today's code read it: a default, an alias, or @upcasts({name}, version=…)"
            self.problems.append(Problem(name, kind, place, "", "UNDECODABLE", why, remedy))


async def sampled(log: EventLog, every: Iterable[Declared], most: int) -> Sampled:
    """Decode up to `most` records of each partition: spread over the events', the newest of the states'."""
    found = Sampled()
    there = await log.port.topics()
    events = {each.name: each for each in every if each.kind == "event"}
    for topic in dict.fromkeys(each.topic for each in events.values() if each.topic in there):
        for partition in range(there[topic].partitions):
            async for record in _spread(log, topic, partition, most):
                if record.type in events:
                    await _event(log, record, found)
    for each in every:
        if each.kind == "state" and each.topic in there:
            for partition in range(there[each.topic].partitions):
                await _states(log, each, partition, most, found)
    return found


async def stale(log: EventLog, each: Declared, headers: Mapping[bytes, str]) -> int:
    """Return how many keys have a newest state that begins with one of these headers."""
    count = 0
    prefixes = _prefixes(log, each)
    for partition in range((await log.port.topics())[each.topic].partitions):
        keys = set[bytes | None]()
        place = each.topic, partition
        async for records in chunks(log.port, place, await log.port.start(*place)):
            for record in records:
                if (record.key or b"").startswith(prefixes):
                    (keys.add if (record.value or b"")[:HEADER_BYTES] in headers else keys.discard)(record.key)
        count += len(keys)
    return count


async def _event(log: EventLog, record: Record, found: Sampled) -> None:
    try:
        await log.decode_now(record)
        found.decoded += 1
    except UndecodableRecord as error:
        found.failed(record.type or "", "event", record, error.reason)


async def _states(log: EventLog, each: Declared, partition: int, most: int, found: Sampled) -> None:
    prefixes = _prefixes(log, each)
    start, end = await log.port.start(each.topic, partition), await log.port.end(each.topic, partition)
    records = await log.port.read(each.topic, partition, max(start, end - most), most)
    newest = {record.key: record for record in records if (record.key or b"").startswith(prefixes)}
    for record in newest.values():
        if not record.value:
            continue
        value = record.value
        try:
            await log.codec.known(lambda value=value: log.codec.decode(each.cls, value))  # type: ignore[misc]  # bound at once
            found.decoded += 1
        except EventlibError as error:
            found.failed(each.name, "state", record, str(error))


def _prefixes(log: EventLog, each: Declared) -> tuple[bytes, ...]:
    deciders = [decider for decider in log.choreography.deciders if decider.state is each.cls]
    return tuple(state_key(decider.name, "").encode() for decider in deciders)


async def _spread(log: EventLog, topic: str, partition: int, most: int) -> AsyncIterator[Record]:
    """Yield records of a partition: its first ones, its last ones, and some in between."""
    start, end = await log.port.start(topic, partition), await log.port.end(topic, partition)
    size = -(-most // _SPANS)
    at = start
    for span in range(_SPANS):
        at = max(at, start + (end - size - start) * span // (_SPANS - 1))
        if at >= end:
            return
        for record in await log.port.read(topic, partition, at, size):
            at = record.offset + 1
            yield record
