"""`eventlib schemas`: the contracts of events and states, against what is registered and what stands on the log."""

import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from typing import TypeVar

from eventlib.cli import output
from eventlib.cli.opened import look, refuse_missing
from eventlib.cli.options import LogOptions
from eventlib.codec.registry import AVRO, JSON, RegistryOptions, Schema, Version
from eventlib.config.variables import read_settings
from eventlib.contracts.declared import Declared, declared, level_of, named
from eventlib.contracts.preflight import Verdict, open_epoch, register, verdict
from eventlib.contracts.problem import Problem, difference
from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.log.url import log_file
from eventlib.opening import open_log
from eventlib.registry.compatibility import Level

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    kind: str
    subject: str
    contract: int
    versions: int
    level: str
    today: str
    id: int | None


def print_check(place: LogOptions, also: Sequence[str], *, sample: int, as_json: bool) -> int:
    """Print what today's code would break, and return the exit code: 1 if anything."""
    for url in also:
        refuse_missing(url)

    async def ask(log: EventLog) -> Verdict:
        async with AsyncExitStack() as stack:
            others = [await stack.enter_async_context(open_log(url, log.choreography, read_only=True)) for url in also]
            return await verdict(log, others, sample=sample)

    found = _look(place, ask)
    _print_problems(found.problems, as_json=as_json)
    if not as_json:
        looked = f"{output.counted(found.contracts, 'contract')} against {output.counted(found.versions, 'version')}"
        output.terminal().print(
            f"{looked}, {output.counted(found.decoded, 'record')} decoded: "
            f"{output.counted(len(found.problems), 'problem') if found.problems else 'nothing would break'}."
        )
    return 1 if found.problems else 0


def print_register(place: LogOptions, *, as_json: bool) -> int:
    """Register today's schemas, print which, and return the exit code: 1 if any is not compatible."""
    problems, made = look(_place(place), register, missing=True)  # a log of contracts comes before one of events
    _print_problems(problems, as_json=as_json)
    if problems:
        output.warn("nothing was registered")
        return 1
    if as_json:
        output.print_json({"subject": each.subject, "version": each.version, "id": each.id} for each in made)
    else:
        for each in made:
            output.terminal().print(f"{each.subject}  version {each.version}, id {each.id}")
        output.terminal().print(f"{output.counted(len(made), 'schema')} registered." if made else "All is registered.")
    return 0


def print_list(place: LogOptions, *, as_json: bool) -> None:
    """Print a line for each contract."""
    rows = _look(place, _rows)
    if as_json:
        output.print_json(asdict(row) for row in rows)
        return
    shown = output.table(
        "name", "kind", "subject", "version", "schemas", "level", "today", right=["version", "schemas"]
    )
    for row in rows:
        today = f"id {row.id}" if row.id is not None else row.today
        style = None if row.kind == "event" else "dim"
        shown.add_row(
            row.name, row.kind, row.subject, str(row.contract), str(row.versions), row.level, today, style=style
        )
    output.terminal().print(shown)


def print_schema(place: LogOptions, name: str) -> None:
    """Print one schema."""

    async def ask(log: EventLog) -> Schema:
        return await _schema(log, name)

    schema = _look(place, ask)
    text = json.dumps(json.loads(schema.text), indent=2, ensure_ascii=False) if _is_json(schema) else schema.text
    output.write_lines([text.encode()])


def print_diff(place: LogOptions, before: str, after: str, *, as_json: bool) -> None:
    """Print what two schemas differ in."""

    async def ask(log: EventLog) -> tuple[Schema, Schema]:
        return await _schema(log, before), await _schema(log, after)

    found = difference(*_look(place, ask))
    if as_json:
        output.print_json([asdict(found)])
        return
    console = output.terminal()
    if not found.changes:
        console.print("They have the same fields.")
        return
    shown = output.table("field", before, after)
    for change in found.changes:
        shown.add_row(change.field, change.before or "-", change.after or "-")
    console.print(shown)
    for reader, writer, reasons in ((after, before, found.backward), (before, after, found.forward)):
        verdict = "; ".join(reasons)
        console.print(f"{reader} does not read {writer}: {verdict}" if reasons else f"{reader} reads {writer}.")


def print_epoch(place: LogOptions, name: str) -> None:
    """Begin a new version of a contract, and say so."""

    async def ask(log: EventLog) -> tuple[Declared, Version]:
        each = named(log, name)
        return each, await open_epoch(log, each)

    each, made = _look(place, ask)
    output.terminal().print(
        f"{each.name} is version {each.version} of its contract from now on: {made.subject} version {made.version}, "
        f"id {made.id}."
    )


def print_level(place: LogOptions, name: str, level: str) -> None:
    """Set a contract's compatibility level, and say so."""
    if level not in list(Level):
        raise ContractError(f"{level!r} is no level: known are {', '.join(Level)}")

    async def ask(log: EventLog) -> Declared:
        each = named(log, name)
        await log.codec.registry.set_level(each.subject, level)
        return each

    output.terminal().print(f"{_look(place, ask).subject} is compared by {level} from now on.")


def _look(place: LogOptions, command: Callable[[EventLog], Awaitable[T]]) -> T:
    found = _place(place)
    return look(found, command, missing=found != place)


def _place(place: LogOptions) -> LogOptions:
    """Return where to look: with a registry elsewhere there need not be a log, as in a pipeline."""
    options = read_settings(RegistryOptions, {}, also=None)
    file = log_file(place.url)
    is_missing = file is not None and not file.is_file()
    return LogOptions(place.app, "memory://") if is_missing and options.registry is not None else place


def _print_problems(problems: Sequence[Problem], *, as_json: bool) -> None:
    if as_json:
        output.print_json(asdict(problem) for problem in problems)
        return
    if not problems:
        return
    shown = output.table("contract", "against", "field", "rule", "what to do", whole=["contract", "against"])
    for each in problems:
        shown.add_row(each.name, each.against, each.field, f"{each.rule}\n{each.what}", each.remedy)
        shown.add_section()
    output.terminal().print(shown)


async def _rows(log: EventLog) -> list[_Row]:
    registry = log.codec.registry
    await log.codec.refresh()
    rows = list[_Row]()
    for each in declared(log):
        versions = await registry.versions(each.subject)
        number = next((version.id for version in versions if version.schema == each.schema), None)
        today = "registered" if number is not None else "changed" if versions else "new"
        level = await level_of(registry, each)
        rows.append(_Row(each.name, each.kind, each.subject, each.version, len(versions), level.value, today, number))
    return rows


async def _schema(log: EventLog, text: str) -> Schema:
    name, _, wanted = text.partition("@")
    each = named(log, name)
    if not wanted:
        return each.schema
    await log.codec.refresh()
    versions = await log.codec.registry.versions(each.subject)
    found = next((version.schema for version in versions if str(version.version) == wanted), None)
    if found is None:
        there = ", ".join(str(version.version) for version in versions) or "none"
        raise ContractError(f"{each.subject} has no version {wanted!r}: there are {there}")
    return found


def _is_json(schema: Schema) -> bool:
    return schema.kind in {AVRO, JSON}
