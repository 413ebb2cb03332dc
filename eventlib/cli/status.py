"""`eventlib status`: the services' status, once or refreshed, and whether they are healthy."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from eventlib.cli._common import output
from eventlib.cli._common.options import JsonOption, LogOptions, flag, option, run_on_log
from eventlib.cli._common.paused import paused_text
from eventlib.config.settings import runtime_config
from eventlib.errors import RetryableError
from eventlib.eventlog import EventLog
from eventlib.operations.as_json import status_json
from eventlib.operations.complaints import Limits, complaints
from eventlib.operations.parked_groups import grouped
from eventlib.operations.startup_waits import waiting_here
from eventlib.operations.status import SagaCount, Status, StatusReader, TaskStatus, without_answer
from eventlib.runtime.bootstrap import OF_PAST
from eventlib.telemetry.logs import tell
from eventlib.values import iso


def status(  # noqa: PLR0913, PLR0917  one argument for each option
    log_options: LogOptions,
    watch: Annotated[bool, flag("--watch -w", "Refresh until Ctrl-C.")] = False,
    every: Annotated[float, option("--every", "SECONDS", "The refresh interval, with --watch.", min=0.1)] = 2.0,
    sagas: Annotated[
        bool, flag("--sagas", "Count sagas by state, too: reads each state once, about 10 µs each.")
    ] = False,
    max_behind: Annotated[
        float, option("--max-behind", "SECONDS", "How old the oldest unhandled input may be.", min=0)
    ] = 60.0,
    max_parked: Annotated[int, option("--max-parked", "N", "How many keys and effects may be parked.", min=0)] = 0,
    max_overdue: Annotated[
        int, option("--max-overdue", "N", "How many sagas may be overdue, with --sagas.", min=0)
    ] = 0,
    allow_stopped: Annotated[bool, flag("--allow-stopped", "Also healthy when a task has no owner.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the status of services: owners, lag, pending, parked, overdue.

    It reads only the log, whether the services run or not: tasks store their
    cursors on their changelogs. On the machine of an SQLite log it costs
    milliseconds; elsewhere it first reads the changelogs, and --watch then only
    new records.

    Exit code 1 when not healthy: a task without an owner, one that is behind
    for too long, too many parked or overdue, inputs that are gone before they
    were read, a topic with other partitions than declared, an open transaction
    that hides inputs for too long.

    [dim]Examples:[/dim]
      eventlib status
      eventlib status --watch --sagas
      eventlib status --json --max-behind 10 | jq .complaints
    """
    limits = Limits(max_behind, max_parked, max_overdue, allow_stopped)
    if not watch:
        raise typer.Exit(print_status(log_options, limits, sagas=sagas, as_json=as_json))
    if as_json:
        raise typer.BadParameter("refreshes a screen: call it repeatedly instead", param_hint="--watch / --json")
    watch_status(log_options, limits, every, sagas=sagas)


_REASONS = 5


_SPARE = ["to restore", "last transaction"]


def print_status(log_options: LogOptions, limits: Limits, *, sagas: bool, as_json: bool) -> int:
    """Print the status of services; return 0 when all are healthy, else 1."""
    state_dir = runtime_config().state_dir

    async def read(log: EventLog) -> Status:
        return await StatusReader(log, with_sagas=sagas, state_dir=state_dir).read()

    try:
        status = run_on_log(log_options, read)
    except RetryableError:  # other processes may wait for the same cause
        for each in waiting_here(log_options.url, state_dir):
            tell(each.sentence)
        raise
    found = complaints(status, limits)
    if as_json:
        output.print_json([status_json(status, found)])
    else:
        console = output.terminal()
        console.print(_screen(status, found, {}))
    return 1 if found else 0


def watch_status(log_options: LogOptions, limits: Limits, every_s: float, *, sagas: bool) -> None:
    """Show the status of services until Ctrl-C, with inputs handled per second."""

    async def watch(log: EventLog) -> None:
        reader = StatusReader(log, with_sagas=sagas, state_dir=runtime_config().state_dir)
        console = output.terminal()
        before: Status | None = None
        with Live(console=console, screen=console.is_terminal, auto_refresh=False) as live:
            while True:
                status = await reader.read()
                rates = _handled_per_s(before, status)
                live.update(_screen(status, complaints(status, limits), rates), refresh=True)
                before = status
                await asyncio.sleep(every_s)

    run_on_log(log_options, watch)


def _handled_per_s(before: Status | None, now: Status) -> Mapping[str, float]:
    """Return each service's inputs handled per second between two snapshots: new inputs less the growth of its lag."""
    if before is None:
        return {}
    seconds = max((now.at - before.at).total_seconds(), 0.001)
    found = dict[str, float]()
    for service in dict.fromkeys(task.service for task in now.tasks):
        left = sum(task.lag for task in before.of(service)) - sum(task.lag for task in now.of(service))
        found[service] = left / seconds
    return found


def _screen(status: Status, found: Sequence[str], rates: Mapping[str, float]) -> RenderableType:
    state = Text("healthy", style="bold green") if not found else Text("not healthy", style="bold red")
    head = Text.assemble(iso(status.at).replace("T", " ")[:19], " UTC  ", state)
    parts: list[RenderableType] = [
        head,
        _lines([*found, *map(str, status.damaged)], "red"),
        "",
        _services(status, rates),
    ]
    if status.sagas is not None:
        parts += ["", _sagas(status.sagas)]
    parts += [""] if status.paused else []
    parts.append(_lines([*map(paused_text, status.paused), *without_answer(status)], "yellow"))
    if status.parked:
        parts += ["", _parked(status), *_past(status)]
    parts += ["", _topics(status)]
    return Group(*parts)


def _lines(sentences: Sequence[str], style: str) -> output.Fields:
    lines = output.Fields()
    for each in sentences:
        lines.add_row("", Text(output.printable(each), style=style))
    return lines


def _services(status: Status, rates: Mapping[str, float]) -> RenderableType:
    columns = ["service", "tasks", "owner", "lag", "behind", "pending", "parked", *_SPARE]
    right = ["behind", "parked", "to restore", "catches up/s"]
    whole = ["behind", "parked", "last transaction"]
    shown = output.table(*columns, *(["catches up/s"] if rates else []), right=right, whole=whole, spare=_SPARE)
    for service in dict.fromkeys(task.service for task in status.tasks):
        tasks = status.of(service)
        cells: list[output.Cell] = [service, len(tasks), _owners(status, tasks), sum(t.lag for t in tasks)]
        cells += [_seconds(max(t.behind_s for t in tasks)), sum(t.pending for t in tasks), _waiting(tasks)]
        at = max((task.handled_at for task in tasks if task.handled_at), default=None)
        restore = [task.to_restore for task in tasks if task.to_restore is not None]
        cells += [f"{sum(restore):,}" if restore else "?", "never" if at is None else output.readable(at)]
        cells += [f"{rates[service]:+,.0f}"] if rates else []
        shown.add_row(*cells)
    return shown


def _owners(status: Status, tasks: Sequence[TaskStatus]) -> str:
    if not status.owners_known:
        return "?"
    owners = Counter(task.owner or "none" for task in tasks)
    return ", ".join(name if len(owners) == 1 else f"{name} ({count})" for name, count in sorted(owners.items()))


def _waiting(tasks: Sequence[TaskStatus]) -> str:
    keys, inputs = sum(task.parked_keys for task in tasks), sum(task.parked_inputs for task in tasks)
    effects = sum(task.parked_effects for task in tasks)
    found = [f"{keys:,} ({inputs:,} wait)"] if keys else []
    return ", ".join([*found, *([output.counted(effects, "effect")] if effects else [])]) or "0"


def _seconds(seconds: float) -> str:
    return "-" if not seconds else output.duration(round(seconds * 1000))


def _sagas(counts: Sequence[SagaCount]) -> RenderableType:
    flying = sum(each.count for each in counts if not each.has_ended)
    line = Text.assemble(("sagas  ", "bold"), f"{flying:,} in flight, {sum(c.overdue for c in counts):,} overdue")
    for each in counts:
        line.append(f"   {each.state} {each.count:,}", style="dim" if each.has_ended else "")
    return line


def _parked(status: Status) -> RenderableType:
    columns = ["parked", "service", "decider or effect", "since (UTC)", "code", "reason"]
    shown, groups = output.table(*columns, whole=["since (UTC)"], spare=["code"]), grouped(status.parked)
    for each in groups[:_REASONS]:
        code = each.code_versions[0][:8] if each.code_versions else ""
        shown.add_row(len(each.members), each.service, each.about, output.readable(each.first), code, each.reasons[0])
    if len(groups) > _REASONS:
        shown.add_row("", "", "", "", "", f"and {len(groups) - _REASONS:,} more causes: `eventlib parked list`")
    return shown


def _past(status: Status) -> list[Text]:
    """Return a line about effects of the past, with the command that lets them run."""
    past = [each for each in status.parked if each.is_of_past]
    if not past:
        return []
    command = past[0].command if len(past) == 1 else f"eventlib parked retry --all --reason-matches '{OF_PAST.strip()}'"
    over = f" ({len(status.past_of_ended):,} of sagas that have ended)" if status.past_of_ended else ""
    return [Text(f"{output.counted(len(past), 'effect')} of the past{over}: {output.printable(command)}", style="dim")]


def _topics(status: Status) -> RenderableType:
    line = Text("events/s in the last minute  ", style="bold")
    busy = {name: rate for name, rate in status.said_per_s.items() if rate}
    line.append("  ".join(f"{name} {rate:,.1f}" for name, rate in busy.items()) or "none", style="not bold")
    return line
