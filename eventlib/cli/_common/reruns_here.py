"""Reruns that a command carries out itself: it shows what differs, and asks before a service takes their states over."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Annotated

import typer
from rich.text import Text

from eventlib.cli._common import output
from eventlib.cli._common.act_command import Asked
from eventlib.cli._common.prompts import agree
from eventlib.config.settings import runtime_config
from eventlib.eventlog import EventLog
from eventlib.operations.reprocessing.comparison import Difference, EventDifference, StateDifference, Waiting
from eventlib.operations.reprocessing.jobs import RerunJob, carry_out
from eventlib.operations.rerun_acts import RerunOutcome
from eventlib.replay.comparison import ABSENT, Change
from eventlib.values import iso_ms

_SIGNS = {"missing": "-", "extra": "+", "other": "~"}


class Effects(StrEnum):
    """What happens to effects that only a rerun has requested."""

    RECORDED = "recorded"
    RUN = "run"


EffectsOption = Annotated[
    Effects,
    typer.Option("--effects", help="Whether effects that were never requested run then, or are parked (recorded)."),
]


class RerunsHere:
    """Carries jobs out in this process, and shows `limit` differences in full; with `follow` until Ctrl-C."""

    def __init__(  # what a command has, then what its log is
        self, asked: Asked, limit: int, log: EventLog, progress: Callable[[int, int], None], *, follow: bool = False
    ) -> None:
        self._asked = asked
        self._limit = limit
        self._log = log
        self._progress = progress
        self._follow = follow

    async def begin(self, job: RerunJob) -> RerunJob:
        """Carry a job out, after a yes where it ends with a cutover. Raises: as `carry_out`; Abort."""
        job.spec = replace(job.spec, follow=self._follow)
        listed = None if job.cutover and self._asked.as_json else self._limit
        await carry_out(job, self._log, runtime_config().state_dir, self._progress, listed, self._look)
        return job

    def forget(self, service: str, name: str) -> None:
        """Do nothing: this process ends with its job."""

    def _look(self, job: RerunJob) -> None:
        if not job.cutover:
            return
        if job.difference is not None:
            print_difference(job.service, job.name, job.difference, self._limit)
            _print_consequences(job)
        if not job.dry_run:
            agree(f"Shall {job.service} take over the states of {job.name}?", yes=self._asked.yes)


def print_switched(outcome: RerunOutcome) -> None:
    """Print what a cutover came to, or would."""
    job, done = outcome.job, outcome.job.switched
    assert done is not None  # noqa: S101  it is a job with a cutover
    states, tasks = output.counted(done.states, "key"), output.counted(done.tasks, "task")
    said, unsaid = output.counted(done.said, "event"), output.counted(done.unsaid, "event")
    if job.dry_run:
        print(f"It would change {states} in {tasks}, and emit {said}; {unsaid} could not be taken back.")
        return
    print(f"Done, and recorded, in {tasks}: {states} changed,")
    print(f"{said} emitted now, {unsaid} could not be taken back.")
    if done.requested and not job.runs_effects:
        print(f"{output.counted(done.requested, 'effect')} not run yet: see `eventlib parked list`, and retry them.")
    print(f"If {job.service} runs other code than this, restart it now.")


def _print_consequences(job: RerunJob) -> None:
    found, service, name = job.difference, job.service, job.name
    assert found is not None  # noqa: S101  who calls this has looked
    new = sum(each.extra for each in found.deciders)
    old = sum(each.missing for each in found.deciders)
    other = sum(each.other for each in found.deciders)
    if new or other:
        print(f"\nEvents that only {name} emits, {service} emits then. ", end="")
    if old or other:
        print(f"Events that only {service} has emitted stay on the log: compensating their consequences is up to you.")
    if found.requested:
        count = output.counted(len(found.requested), "effect")
        print(f"{count} that only {name} requests {'run' if job.runs_effects else 'wait for you, parked'}.")
    print()


def print_difference(service: str, name: str, found: Difference, limit: int) -> None:
    """Print the comparison as a table, then the first differences."""
    numbers = ["keys", "states differ", "unchanged", "missing", "added", "changed"]
    shown = output.table("decider", *numbers)
    for each in found.deciders:
        counts = each.keys, each.states, each.alike, each.missing, each.extra, each.other
        shown.add_row(each.decider, *counts, style="bold" if each.differs else None)
    output.terminal().print(shown)
    if found.is_none:
        output.say(f"{name} emits the same events and has the same states as {service}: nothing differs.")
    _print_events(found.events)
    _print_states(found.states)
    _print_waiting(f"Effects that only {name} requests; they did not run", found.requested, limit)
    _print_waiting(f"Keys that only {name} cannot handle", found.parked, limit)
    if found.not_yet:
        what = output.counted(found.not_yet, "key")
        output.say(f"{service} has changed {what} since; run this again to compare them, too.", "dim")


def _print_events(events: Iterable[EventDifference]) -> None:
    for number, each in enumerate(events):
        if not number:
            output.say()
            output.say("Events, the first ones (- missing, + added, ~ changed):")
        types = " → ".join(dict.fromkeys(filter(None, (each.before, each.after))))
        line = Text(f"{_SIGNS[each.kind]} ").append(f"{each.decider} {output.printable(each.key)}", "bold")
        line.append(f"  {types}  ").append(iso_ms(each.at_ms), "dim")
        output.say(line)
        if each.kind == "other":
            _print_changes(each.changes)


def _print_states(states: Iterable[StateDifference]) -> None:
    for number, each in enumerate(states):
        if not number:
            output.say()
            output.say("States, the first ones:")
        output.say(Text("~ ").append(f"{each.decider} {output.printable(each.key)}", "bold"))
        if each.why:
            output.say(f"    {each.why}", "red")
        _print_changes(each.changes)


def _print_changes(changes: Iterable[Change]) -> None:
    for change in changes:
        sides = ["-" if side is ABSENT else output.printable(str(side)) for side in (change.before, change.after)]
        output.say(f"    {change.path}: {sides[0]} → {sides[1]}", "dim")


def _print_waiting(title: str, waiting: Sequence[Waiting], limit: int) -> None:
    if waiting:
        output.say()
        output.say(f"{title} ({len(waiting):,}):")
    for each in waiting[:limit]:
        line = Text("  ").append(f"{each.decider} {output.printable(each.key)}", "bold").append(f"  {each.request}")
        output.say(line.append(output.printable(each.reason), "dim"))
