"""`eventlib check`: the choreography's faults, and what was proved when there are none."""

from dataclasses import asdict

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from eventlib.analysis import compensation
from eventlib.analysis.checks import check
from eventlib.analysis.event_graph import EventGraph
from eventlib.analysis.finding import Finding
from eventlib.cli import output
from eventlib.cli.options import LogOptions
from eventlib.cli.project import load_choreography
from eventlib.model.choreography import Choreography

_INDENT = 9


def print_check(place: LogOptions, *, strict: bool, as_json: bool) -> int:
    """Print the choreography's faults, and return the exit code: 1 for errors, and for warnings if they count."""
    choreography = load_choreography(place.app)
    findings = check(choreography)
    errors, warnings = (_count(findings, severity) for severity in ("error", "warning"))
    if as_json:
        output.print_json(asdict(finding) for finding in findings)
    else:
        _print(choreography, findings, errors, warnings)
    return 1 if errors or (strict and warnings) else 0


def _print(choreography: Choreography, findings: list[Finding], errors: int, warnings: int) -> None:
    console = output.terminal()
    for finding in findings:
        _print_finding(console, finding)
    if not errors and not warnings:
        console.print(_well_wired(choreography) + ("" if findings else _proof(choreography)))
    accepted = len(findings) - errors - warnings
    if findings:
        more = f", {accepted} accepted" if accepted else ""
        console.print(f"{_counted(errors, 'error')}, {_counted(warnings, 'warning')}{more}.")


def _print_finding(console: Console, finding: Finding) -> None:
    severity, style = finding.severity, "red" if finding.severity == "error" else "yellow"
    if finding.accepted is not None:
        severity, style = "accepted", "dim"  # type: ignore[assignment]  # shown in the place of the severity
    head = Text.assemble((f"{severity:<{_INDENT}}", f"bold {style}"), (finding.rule, style), f"  {finding.subject}")
    console.print(head.append(f"  {finding.where}" if finding.where != finding.subject else "", style="dim"))
    if finding.accepted is not None:
        lines = [Text(finding.what, style="dim"), Text(f"because {finding.accepted}")]
    else:
        lines = [Text(finding.what), Text(f"so {finding.why}", style="dim"), Text(f"→  {finding.remedy}")]
    for line in lines:
        console.print(Padding(line, (0, 0, 0, _INDENT), expand=False))
    console.print()


def _well_wired(choreography: Choreography) -> str:
    size = f"{_counted(len(choreography.services), 'service')}, {_counted(len(choreography.deciders), 'decider')}"
    return f"{choreography.name} is well wired: {size}, {_counted(len(choreography.events), 'event')}."


def _proof(choreography: Choreography) -> str:
    steps, ways = compensation.proved(EventGraph(choreography))
    if not ways:
        return ""
    return f"\nA failure can follow {_counted(steps, 'step')} in {_counted(ways, 'way')}: each leads to what reverses the step."


def _count(findings: list[Finding], severity: str) -> int:
    return sum(finding.severity == severity and finding.accepted is None for finding in findings)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
