"""`eventlib schemas check`, `register`, `epoch` and `level`: what would break, and what is registered."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from typing import Annotated, TypeVar

import typer
from rich.text import Text

from eventlib.cli._common import output
from eventlib.cli._common.options import JsonOption, LogOptions, argument, option, refuse_missing, run_on_log
from eventlib.codec.registry import RegistryOptions, Version
from eventlib.contracts.declared import Declared, named
from eventlib.contracts.preflight import Verdict, open_epoch, verdict
from eventlib.contracts.preflight import register as register_schemas
from eventlib.contracts.problem import Problem
from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.ground.url import log_file
from eventlib.ground.variables import read_settings
from eventlib.opening import open_log
from eventlib.registry.compatibility import Level
from eventlib.values import escaped

_Name = Annotated[str, argument("NAME", "The name of an event or a state, or its subject.")]


T = TypeVar("T")


def check(
    log_options: LogOptions,
    sample: Annotated[int, option("--sample", "N", "How many records of each partition to decode.", min=0)] = 1_000,
    also: Annotated[
        list[str] | None, option("--also", "URL", "Also decode from this log, for example archive:DIR.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Find what today's code would break: exit code 1 if anything.

    Every event and every state is compared with all registered versions, and a
    sample of the log's records is decoded. Events are compared in both
    directions with each version (FULL_TRANSITIVE); states must be readable by
    newer code (BACKWARD_TRANSITIVE).

    [dim]Examples:[/dim]
      eventlib schemas check
      eventlib schemas check --also archive:/var/archive --sample 100000
      eventlib schemas check --json | jq -r '[.name, .field, .rule] | @tsv'
    """
    logs = also or []
    for url in logs:
        refuse_missing(url)

    async def ask(log: EventLog) -> Verdict:
        async with AsyncExitStack() as stack:
            others = [await stack.enter_async_context(open_log(url, log.choreography, read_only=True)) for url in logs]
            return await verdict(log, others, sample=sample)

    found = query_schemas(log_options, ask)
    _print_problems(found.problems, as_json=as_json)
    if not as_json:
        looked = f"{output.counted(found.contracts, 'contract')} against {output.counted(found.versions, 'version')}"
        output.say(
            f"{looked}, {output.counted(found.decoded, 'record')} decoded: "
            f"{output.counted(len(found.problems), 'problem') if found.problems else 'nothing would break'}."
        )
    raise typer.Exit(1 if found.problems else 0)


def register(log_options: LogOptions, as_json: JsonOption = False) -> None:
    """Register the schemas of today's code; none, if one is incompatible.

    [dim]Examples:[/dim]
      eventlib schemas register
      EVENTLIB_REGISTRY=https://registry:8081 eventlib schemas register
    """
    place = _place(log_options)
    problems, made = run_on_log(place, register_schemas, missing=True)  # a log of contracts comes before one of events
    _print_problems(problems, as_json=as_json)
    if problems:
        output.warn("nothing was registered")
        raise typer.Exit(1)
    if as_json:
        output.print_json({"subject": each.subject, "version": each.version, "id": each.id} for each in made)
    else:
        for each in made:
            output.say(f"{each.subject}  version {each.version}, id {each.id}")
        output.say(
            f"{output.counted(len(made), 'schema')} registered." if made else "Everything is registered already."
        )


def epoch(log_options: LogOptions, name: _Name) -> None:
    """Start a new version of a contract, which older code cannot read.

    Today's class needs an upcaster for the older data, @upcasts(NAME,
    version=N), so that it reads all of it. First deploy the readers of these
    events: older code parks what the new version writes.

    [dim]Example:[/dim]
      eventlib schemas epoch OrderPlaced
    """

    async def ask(log: EventLog) -> tuple[Declared, Version]:
        each = named(log, name)
        return each, await open_epoch(log, each)

    each, made = query_schemas(log_options, ask)
    output.say(
        f"{each.name} is version {each.version} of its contract from now on: {made.subject} version {made.version}, "
        f"id {made.id}."
    )


def level(
    log_options: LogOptions,
    name: _Name,
    level: Annotated[str, argument("LEVEL", "NONE, or BACKWARD, FORWARD or FULL, each also _TRANSITIVE.")],
) -> None:
    """Set the compatibility level for a contract's new schemas.

    [dim]Example:[/dim]
      eventlib schemas level ParcelWeighed BACKWARD_TRANSITIVE
    """
    if level not in list(Level):
        raise ContractError(f"{level!r} is not a level: choose one of {', '.join(Level)}")

    async def ask(log: EventLog) -> Declared:
        each = named(log, name)
        await log.codec.registry.set_level(each.subject, level)
        return each

    output.say(f"{query_schemas(log_options, ask).subject} has compatibility level {level} from now on.")


def query_schemas(log_options: LogOptions, command: Callable[[EventLog], Awaitable[T]]) -> T:
    """Run a command on the log, or on an empty one if it is missing and the registry is external."""
    found = _place(log_options)
    return run_on_log(found, command, missing=found != log_options)


def _place(log_options: LogOptions) -> LogOptions:
    """Return the log to use: with an external registry it may be missing, as in a pipeline."""
    options = read_settings(RegistryOptions, {}, also=None)
    file = log_file(log_options.url)
    is_missing = file is not None and not file.is_file()
    return LogOptions(log_options.app, "memory://") if is_missing and options.registry is not None else log_options


def _print_problems(problems: Sequence[Problem], *, as_json: bool) -> None:
    if as_json:
        output.print_json(asdict(problem) for problem in problems)
        return
    if not problems:
        return
    shown = output.table("contract", "against", "field", "rule", "what to do", whole=["against"])
    for each in problems:
        rule = Text(f"{each.rule}\n{escaped(each.what)}")
        shown.add_row(each.name, each.against, each.field, rule, each.remedy)
        shown.add_section()
    output.terminal().print(shown)
