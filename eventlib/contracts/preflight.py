"""The gate: what would be wrong if today's code were deployed, and registering what is right."""

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass

from eventlib.codec.registry import Registry, Version
from eventlib.contracts.declared import LEVELS, Declared, declared, level_of
from eventlib.contracts.problem import Problem, field_at, remedy_of
from eventlib.contracts.samples import sampled, stale
from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.registry.compatibility import Level, SchemaType, unreadable
from eventlib.registry.parsing import InvalidSchema, Parsed, parse
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
