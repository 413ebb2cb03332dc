"""The gate: what would be wrong if today's code were deployed, and registering what is right."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from eventlib.codec.registry import Version
from eventlib.contracts.checking import NEW_VERSION, compared
from eventlib.contracts.declared import LEVELS, Declared, declared, level_of
from eventlib.contracts.problem import Problem
from eventlib.contracts.samples import sampled, stale
from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.registry.compatibility import Level
from eventlib.runtime.runtime import prepare_own


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
