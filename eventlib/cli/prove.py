"""`eventlib prove`: whether what is under way on a log ends lawfully under today's code, whatever order things come in."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.text import Text

from eventlib.cli._common import output
from eventlib.cli._common.options import AppOption, JsonOption, LogOption, LogOptions, refuse_missing
from eventlib.cli._common.scenario import ScenarioOption, staged
from eventlib.fork_pool import cores
from eventlib.project import nearest
from eventlib.proof.by_revision import prove_in_flight, prove_revision
from eventlib.proof.decided import Code
from eventlib.proof.in_flight_formats import as_json as json_of
from eventlib.proof.in_flight_formats import as_junit, as_markdown, headline, keys_of
from eventlib.proof.proving import InFlightProof, ProofBounds

Form = Literal["text", "markdown", "json", "junit"]


def prove(  # noqa: PLR0913, PLR0917  one argument for each option
    context: typer.Context,
    in_flight: Annotated[
        bool, typer.Option("--in-flight", metavar="", help="Prove what is in flight on the log.")
    ] = False,
    each: Annotated[
        int, typer.Option("--each", metavar="N", min=0, help="How many sagas of each shape are explored; 0: all.")
    ] = 1,
    moments: Annotated[
        int, typer.Option("--moments", metavar="N", min=1, help="Give up on a saga after so many moments.")
    ] = 100_000,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            metavar="N",
            min=1,
            help="How many processes share the work. [dim]Default: one per core[/dim]",
            show_default=False,
        ),
    ] = None,
    code: Annotated[
        str | None,
        typer.Option(
            "--code",
            metavar="REVISION",
            help="Prove it under a revision of the repository. [dim]Default: the working tree[/dim]",
            show_default=False,
        ),
    ] = None,
    form: Annotated[Form, typer.Option("--format", metavar="FORM", help="text, markdown, json or junit.")] = "text",
    as_json: JsonOption = False,
    scenario: ScenarioOption = None,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Prove that what is in flight ends lawfully under today's code, or a revision's.

    Every saga that has unread inputs, unanswered effects, deadlines or parked
    keys, or has not ended, is taken from the log as it stands. Sagas that differ
    only in texts, times and larger numbers have one shape, and one of each is
    explored: all remaining orders of events, answers, calls that are lost or
    late, crashes and deadlines, against the invariants of the application. What
    is parked is retried first; external systems are those of the scenario, and
    have done what the log says. The log is only read, and no effect runs.

    Exit code 0 if all of that was explored and ends lawfully, else 1. What was
    not explored is listed.

    [dim]Examples:[/dim]
      eventlib prove --in-flight
      eventlib prove --in-flight --code v1.5 --format junit > proof.xml
      eventlib prove --in-flight --log sqlite:///backup.db --each 0
      eventlib prove --in-flight --json | jq '.unlawful[].keys'
    """
    if not in_flight:
        raise typer.BadParameter("say what is to be proved: --in-flight", param_hint="--in-flight")
    log_options = LogOptions.of(context, app, log)
    refuse_missing(log_options.url)
    bounds = ProofBounds(each or None, moments, workers or cores())
    if code is None:
        found = prove_in_flight(log_options.url, *staged(log_options.app, scenario), bounds)
    else:
        revision = Code(nearest(Path.cwd())[0], log_options.app, code)
        found = prove_revision(log_options.url, revision, scenario, bounds)
    _write(found, "json" if as_json else form)
    raise typer.Exit(0 if found.holds else 1)


def _write(found: InFlightProof, form: Form) -> None:
    match form:
        case "text":
            _print(found)
        case "json":
            output.print_json([json_of(found)])
        case "markdown":
            output.write_lines([as_markdown(found).encode()])
        case "junit":
            output.write_lines([as_junit(found)])


def _print(found: InFlightProof) -> None:
    console = output.terminal()

    def told(text: str, style: str = "") -> None:
        console.print(Text(output.printable(text), style=style), soft_wrap=True)

    told(headline(found), "bold")
    for each in found.unlawful:
        console.print()
        told(f"✗ {keys_of(each)}: {each.why}", "red")
        for number, step in enumerate(each.story, start=1):
            told(f"  {number:>3}  {step}")
    for each in found.open:
        console.print()
        told(f"? {keys_of(each)}: not explored to the end: {each.why}", "yellow")
    if found.in_flight:
        total = sum(each.moments for each in found.explored), sum(each.steps for each in found.explored)
        console.print()
        told(f"Explored: {total[0]:,} moments, {total[1]:,} steps between them. Not explored:")
        for line in found.left_out:
            told(f"- {line}")
