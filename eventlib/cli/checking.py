"""`eventlib check` and `eventlib graph`: the choreography's faults, and its picture."""

from dataclasses import asdict

from rich.text import Text

from eventlib.choreography import Finding
from eventlib.cli import output
from eventlib.cli.mermaid import flowchart
from eventlib.cli.options import Place
from eventlib.cli.project import load_choreography


def print_check(place: Place, *, as_json: bool) -> int:
    """Print the choreography's faults, and return the exit code: 1 when there are errors."""
    choreography = load_choreography(place.app)
    findings = choreography.check()
    if as_json:
        output.print_json(asdict(finding) for finding in findings)
    elif findings:
        _print(findings)
    else:
        size = f"{len(choreography.services)} services, {len(choreography.deciders)} deciders"
        print(f"{choreography.name} is well wired: {size}, {len(choreography.events)} events.")
    return 1 if _errors(findings) else 0


def print_graph(place: Place) -> None:
    """Print the choreography as a Mermaid flowchart."""
    print(flowchart(load_choreography(place.app)))


def _print(findings: list[Finding]) -> None:
    shown = output.table("", "subject", "what to do", whole=["", "subject"])
    for finding in findings:
        style = "red" if finding.severity == "error" else "yellow"
        shown.add_row(Text(finding.severity, style=style), finding.subject, finding.sentence)
    console = output.terminal()
    console.print(shown)
    errors, warnings = _errors(findings), len(findings) - _errors(findings)
    console.print(f"\n{errors} error{'' if errors == 1 else 's'}, {warnings} warning{'' if warnings == 1 else 's'}.")


def _errors(findings: list[Finding]) -> int:
    return sum(finding.severity == "error" for finding in findings)
