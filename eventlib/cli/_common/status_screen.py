"""The status of services as text, for a terminal and for a pipe."""

from collections import Counter
from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from eventlib.cli._common import output
from eventlib.cli._common.paused import paused_text
from eventlib.operations.parked_groups import grouped
from eventlib.operations.status import SagaCount, Status, TaskStatus, without_answer
from eventlib.runtime.bootstrap import OF_PAST
from eventlib.values import iso

_REASONS = 5
_RATE = "catches up/s"
_SPARE = ["to restore", "last transaction"]


def status_screen(
    status: Status, found: Sequence[str], rates: Mapping[str, float] | None = None, *, brief: bool = False
) -> RenderableType:
    """Return a status as text: what is wrong, the services, sagas by state, what is parked, and events per second.

    `rates` are how many inputs each service catches up per second. `brief` is for a screen: the newest causes, a line each.
    """
    state = Text("healthy", style="bold green") if not found else Text("not healthy", style="bold red")
    head = Text.assemble(iso(status.at).replace("T", " ")[:19], " UTC  ", state, ("   q ends" if brief else "", "dim"))
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
        parts += ["", _causes(status) if brief else _parked(status), *_past(status)]
    parts += ["", _topics(status)]
    return Group(*parts)


def _lines(sentences: Sequence[str], style: str) -> output.Fields:
    lines = output.Fields()
    for each in sentences:
        lines.add_row("", Text(output.printable(each), style=style))
    return lines


def _services(status: Status, rates: Mapping[str, float] | None) -> RenderableType:
    further = [*_SPARE, *([_RATE] if rates is not None else [])]
    columns = ["service", "tasks", "owner", "lag", "behind", "pending", "parked", *further]
    right = ["behind", "parked", "to restore", _RATE]
    shown = output.table(
        *columns,
        right=right,
        whole=["last transaction"],
        spare=[*further, *([] if rates is None else ["tasks", "owner", "pending"])],
    )
    for service in dict.fromkeys(task.service for task in status.tasks):
        tasks = status.of(service)
        cells: list[output.Cell] = [service, len(tasks), _owners(status, tasks), sum(t.lag for t in tasks)]
        cells += [_seconds(max(t.behind_s for t in tasks)), sum(t.pending for t in tasks), _waiting(tasks)]
        at = max((task.handled_at for task in tasks if task.handled_at), default=None)
        restore = [task.to_restore for task in tasks if task.to_restore is not None]
        cells += [f"{sum(restore):,}" if restore else "?", "never" if at is None else output.readable(at)]
        if rates is not None:
            cells.append(f"{rates[service]:+,.0f}" if service in rates else "")
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


def _causes(status: Status) -> RenderableType:
    newest = sorted(grouped(status.parked), key=lambda group: group.last, reverse=True)
    lines = [Text.assemble(("parked  ", "bold"), f"{output.counted(len(newest), 'cause')}, the newest first:")]
    for each in newest[:_REASONS]:
        line = Text(f"  {output.readable(each.last)}  {len(each.members):,}  {each.service}, {each.about}  ")
        line.append(output.printable(each.reasons[0]), "red")
        line.no_wrap, line.overflow = True, "ellipsis"
        lines.append(line)
    return Group(*lines)


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
