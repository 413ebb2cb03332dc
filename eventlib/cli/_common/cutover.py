"""Cuts a service over to a rerun after confirmation: for `rerun --switch` and `reset --to`."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Annotated, NamedTuple

import typer

from eventlib.cli._common import output
from eventlib.cli._common.options import LogOptions, run_on_log
from eventlib.cli._common.prompts import agree
from eventlib.cli._common.rerun_report import print_difference
from eventlib.config.settings import runtime_config
from eventlib.eventlog import EventLog
from eventlib.operations.dry_run import refuse_moved
from eventlib.operations.reprocessing.comparison import (
    Difference,
    difference,
)
from eventlib.operations.reprocessing.cutover import Switched, preview_switch, switch
from eventlib.operations.reprocessing.listing import existing_metadata, name_of_reset
from eventlib.operations.reprocessing.metadata import RerunSpec
from eventlib.operations.reprocessing.running import Rerun, rerunning
from eventlib.state.open import open_stores


class Effects(StrEnum):
    """What happens to effects that only a rerun has requested."""

    RECORDED = "recorded"
    RUN = "run"


EffectsOption = Annotated[
    Effects,
    typer.Option("--effects", help="Whether effects that were never requested run then, or are parked (recorded)."),
]


@dataclass(frozen=True, slots=True)
class Consent:
    """The user's consent to a cutover: why, whether effects run that only the rerun has requested, and a yes in advance.

    With `dry_run` the cutover is carried out where nothing is written; `as_previewed` is the token that this has printed.
    """

    why: str
    runs_effects: bool = False
    yes: bool = False
    dry_run: bool = False
    as_previewed: str = ""


class _Done(NamedTuple):
    switched: Switched
    token: str


def print_switch(
    log_options: LogOptions, service: str, name: str, consent: Consent, *, limit: int, as_json: bool
) -> None:
    """Let a service take over a rerun's states, after showing the consequences."""

    async def switched(log: EventLog) -> _Done:
        note = await existing_metadata(log, log.choreography.service(service), name)
        wanted = RerunSpec(consent.why, note.since_ms, note.until_ms)
        return await _switched(log, service, name, wanted, consent, None if as_json else limit)

    _print_switched(run_on_log(log_options, switched), service, name, consent, as_json=as_json)


def print_way_back(
    log_options: LogOptions, service: str, since_ms: int, consent: Consent, *, limit: int, as_json: bool
) -> None:
    """Let a service handle again all inputs since a time (ms; 0: all), after showing the consequences."""
    name = ""

    async def gone_back(log: EventLog) -> _Done:
        nonlocal name
        name = await name_of_reset(log, log.choreography.service(service), since_ms)
        wanted = RerunSpec(consent.why, since_ms)
        return await _switched(log, service, name, wanted, consent, None if as_json else limit)

    _print_switched(run_on_log(log_options, gone_back), service, name, consent, as_json=as_json)


async def _switched(
    log: EventLog, service: str, name: str, wanted: RerunSpec, consent: Consent, shown: int | None
) -> _Done:
    """Cut over, after showing `limit` differences in full; in a dry run, where nothing is written."""
    old = log.choreography.service(service)

    async def show(again: Rerun) -> None:
        if shown is not None:
            found = await difference(again, shown)
            print_difference(service, name, found, shown)
            _print_consequences(service, name, found, runs_effects=consent.runs_effects)

    if consent.dry_run:
        return _Done(*await preview_switch(log, old, name, wanted, show, runs_effects=consent.runs_effects))
    if consent.as_previewed:
        _, token = await preview_switch(log, old, name, wanted, runs_effects=consent.runs_effects)
        refuse_moved(consent.as_previewed, token)
    stores = open_stores(log.port.url, runtime_config().state_dir)
    try:
        async with rerunning(log, stores, old, name, wanted) as again:
            await show(again)
            agree(f"Shall {service} take over the states of {name}?", yes=consent.yes)
            return _Done(await switch(again, consent.why, runs_effects=consent.runs_effects), "")
    finally:
        stores.close()


def _print_switched(outcome: _Done, service: str, name: str, consent: Consent, *, as_json: bool) -> None:
    done = outcome.switched
    if as_json:
        line = {"service": service, "rerun": name, **asdict(done), "why": consent.why, "done": not consent.dry_run}
        output.print_json([line | ({"as_previewed": outcome.token} if consent.dry_run else {})])
        return
    if consent.dry_run:
        print(
            f"It would change {output.counted(done.states, 'key')} in {output.counted(done.tasks, 'task')}, and emit",
            end=" ",
        )
        print(f"{output.counted(done.said, 'event')}; {output.counted(done.unsaid, 'event')} could not be taken back.")
        print(f"Nothing was written. To act only if this still holds: --as-previewed {outcome.token}")
        return
    print(f"Done, and recorded, in {output.counted(done.tasks, 'task')}: {output.counted(done.states, 'key')} changed,")
    print(
        f"{output.counted(done.said, 'event')} emitted now, {output.counted(done.unsaid, 'event')} could not be taken back."
    )
    if done.requested and not consent.runs_effects:
        print(f"{output.counted(done.requested, 'effect')} not run yet: see `eventlib parked list`, and retry them.")
    print(f"If {service} runs other code than this, restart it now.")


def _print_consequences(service: str, name: str, found: Difference, *, runs_effects: bool) -> None:
    new = sum(each.extra for each in found.deciders)
    old = sum(each.missing for each in found.deciders)
    other = sum(each.other for each in found.deciders)
    if new or other:
        print(f"\nEvents that only {name} emits, {service} emits then. ", end="")
    if old or other:
        print(f"Events that only {service} has emitted stay on the log: compensating their consequences is up to you.")
    if found.requested:
        count = output.counted(len(found.requested), "effect")
        print(f"{count} that only {name} requests {'run' if runs_effects else 'wait for you, parked'}.")
    print()
