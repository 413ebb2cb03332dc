"""`eventlib check`: the choreography's faults, or what is proved when there are none."""

from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from eventlib.analysis import compensation
from eventlib.analysis.checks import check as check_wiring
from eventlib.analysis.event_graph import EventGraph
from eventlib.cli._common import output
from eventlib.cli._common.connectors import FileOption, OutboxesOption, SinksOption, connectors_of
from eventlib.cli._common.options import JsonOption, LogOptions, flag
from eventlib.cli._common.output import counted
from eventlib.contracts.writable import unwritable
from eventlib.model.choreography import Choreography
from eventlib.model.finding import Finding
from eventlib.model.project import load_choreography

_WIDEST = 7


def check(
    log_options: LogOptions,
    strict: Annotated[bool, flag("--strict", "Warnings, too, end with exit code 1.")] = False,
    as_json: JsonOption = False,
    sinks: SinksOption = None,
    outboxes: OutboxesOption = None,
    subscribers: FileOption = None,
) -> None:
    """Find faults in the wiring: missing handlers, missing compensations.

    From types alone: events without a handler, handlers without a source; steps
    that a failure does not compensate (events declare failure=True and
    reverses=OtherEvent); waits without a deadline, cycles, effects that give up;
    sinks and subscribers of webhooks that ask for what never comes, outboxes
    that put what no service handles.

    Exit code 1 for errors, 0 for warnings. Accept an intended finding with
    Choreography(accepts=[Accepted(RULE, SUBJECT, REASON)]), from
    eventlib.model.finding: it is shown with its reason, and no longer counts.

    [dim]Examples:[/dim]
      eventlib check
      eventlib check --strict
      eventlib check --json | jq -r 'select(.accepted == null) | .what'
    """
    choreography = load_choreography(log_options.app)
    connectors = connectors_of(choreography, sinks, outboxes, subscribers)
    findings = check_wiring(choreography, unwritable(choreography), connectors)
    errors, warnings = (_count(findings, severity) for severity in ("error", "warning"))
    if as_json:
        output.print_json(asdict(finding) for finding in findings)
    else:
        _print(choreography, findings, errors, warnings)
    raise typer.Exit(1 if errors or (strict and warnings) else 0)


def _print(choreography: Choreography, findings: list[Finding], errors: int, warnings: int) -> None:
    for finding in findings:
        _print_finding(finding)
    if not errors and not warnings:
        output.say(_well_wired(choreography))
        if not findings and (proof := _proof(choreography)):
            output.say(proof)
    accepted = len(findings) - errors - warnings
    if findings:
        more = f", {accepted} accepted" if accepted else ""
        output.say(f"{counted(errors, 'error')}, {counted(warnings, 'warning')}{more}.")


def _print_finding(finding: Finding) -> None:
    severity, style = finding.severity, "red" if finding.severity == "error" else "yellow"
    if finding.accepted is not None:
        severity, style = "accepted", "dim"  # type: ignore[assignment]  # shown in the place of the severity
    head = Text.assemble((finding.rule, style), f"  {finding.subject}")
    shown = output.Fields(_WIDEST)
    shown.add_row(
        Text(severity, f"bold {style}"),
        head.append(f"  {finding.where}" if finding.where != finding.subject else "", style="dim"),
    )
    if finding.accepted is not None:
        lines = [Text(finding.what, style="dim"), Text(f"because {finding.accepted}")]
    else:
        lines = [Text(finding.what), Text(f"so {finding.why}", style="dim"), Text(f"→  {finding.remedy}")]
    for line in lines:
        shown.add_row("", line)
    output.terminal().print(shown)
    output.say()


def _well_wired(choreography: Choreography) -> str:
    size = f"{counted(len(choreography.services), 'service')}, {counted(len(choreography.deciders), 'decider')}"
    return f"{choreography.name} is well wired: {size}, {counted(len(choreography.events), 'event')}."


def _proof(choreography: Choreography) -> str:
    steps, ways = compensation.proved(EventGraph(choreography))
    if not ways:
        return ""
    return f"A failure can follow {counted(steps, 'step')} in {counted(ways, 'way')}: each leads to what reverses the step."


def _count(findings: list[Finding], severity: str) -> int:
    return sum(finding.severity == severity and finding.accepted is None for finding in findings)
