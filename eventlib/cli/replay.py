"""`eventlib replay`: runs today's code over recorded history, and compares."""

from collections.abc import Collection
from typing import Annotated

import typer

from eventlib.cli._common.names import ServicesOption
from eventlib.cli._common.options import JsonOption, LogOptions, SinceOption, flag, option, refuse_missing, run_on_log
from eventlib.cli.replay_report import print_gate, print_report
from eventlib.model.project import load_choreography
from eventlib.proof.sharing import Wanted, replay_in_processes
from eventlib.replay import PreflightReport, Report
from eventlib.replay.report import NOTHING_COMPARED
from eventlib.replay.stuck_sagas import standing


def replay(
    log_options: LogOptions,
    service: ServicesOption = None,
    since: SinceOption = None,
    in_flight: Annotated[
        bool, flag("--in-flight", "Only sagas that have not ended: the preflight before a deployment.")
    ] = False,
    limit: Annotated[int, option("--limit", "N", "For how many sagas to show a difference in full.", min=0)] = 10,
    as_json: JsonOption = False,
) -> None:
    """Replay the recorded history with today's code, and compare.

    Each recorded input is decided again, in the recorded order, and what
    today's code emits is compared with what was emitted: types, fields, keys,
    order. Exit code 0 if nothing differs, else 1, with the handlers and the
    sagas. The history is not changed: each input follows from what was
    recorded, so that one change counts once. No effect runs.

    --in-flight compares only the sagas that have not ended, and lists those
    that today's code would leave stuck: their state cannot be read, or nothing
    is left that advances them. On a damaged log it names the damage, and the
    sagas that may be stuck; exit code 1, since what depends on it is not known.

    [dim]Examples:[/dim]
      eventlib replay
      eventlib replay --service stock --since 2026-01-31
      eventlib replay --in-flight
      eventlib replay --json | jq '.handlers[] | select(.differences > 0)'
    """
    choreography = load_choreography(log_options.app)
    refuse_missing(log_options.url)
    services = [choreography.service(name).name for name in service or []] or None

    def compared(sagas: Collection[str] | None) -> Report:
        return replay_in_processes(log_options.url, choreography, Wanted(services, since, sagas, limit))

    if not in_flight:
        report = compared(None)
        print_report(report, as_json=as_json)
        raise typer.Exit(0 if report.same else 1)
    status, in_flight_now = run_on_log(log_options, standing)
    found = PreflightReport(status, compared(in_flight_now) if in_flight_now else NOTHING_COMPARED)
    print_gate(found, as_json=as_json)
    raise typer.Exit(0 if found.is_open else 1)
