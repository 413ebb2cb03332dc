"""`eventlib prove`: what versions of the code decide, whether what is in flight ends lawfully, and a deployment's preview."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from eventlib.cli._common import output
from eventlib.cli._common.options import JsonOption, LogOptions, SinceOption, WorkersOption, option, refuse_missing
from eventlib.cli._common.scenario import ScenarioOption, staged
from eventlib.cli._common.typer_ext import group
from eventlib.cli.bisect import bisect
from eventlib.cli.corpus import corpus
from eventlib.cli.diff import diff, print_diff
from eventlib.cli.shrink import shrink
from eventlib.ground.fork_pool import cores
from eventlib.model.project import nearest
from eventlib.proof import Versions, deploying, in_flight_formats
from eventlib.proof.by_revision import prove_in_flight, prove_revision
from eventlib.proof.decided import Code
from eventlib.proof.deploying import Deployment, DeploymentPreview
from eventlib.proof.in_flight_formats import headline, keys_of
from eventlib.proof.proving import InFlightProof, ProofBounds

Form = Literal["text", "markdown", "json", "junit"]

_SHOWN = 10
"""How many kinds of difference are shown in full."""


prove = group("Compare what versions of the code decide on a log, and prove a change before it is deployed.")

EachOption = Annotated[int, option("--each", "N", "How many sagas of each shape are explored; 0: all.", min=0)]
MomentsOption = Annotated[int, option("--moments", "N", "Give up on a saga after so many moments.", min=1)]
CodeOption = Annotated[
    str | None,
    option("--code", "REVISION", "Prove it under a revision of the repository. [dim]Default: the working tree[/dim]"),
]
FormOption = Annotated[Form, option("--format", "FORM", "text, markdown, json or junit.")]


@prove.command()
def in_flight(  # noqa: PLR0913, PLR0917  one argument for each option
    log_options: LogOptions,
    each: EachOption = 1,
    moments: MomentsOption = 100_000,
    workers: WorkersOption = None,
    code: CodeOption = None,
    form: FormOption = "text",
    as_json: JsonOption = False,
    scenario: ScenarioOption = None,
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
    not explored is listed. On a damaged log, what may depend on the damage is
    not explored, and all is never said to end lawfully.

    [dim]Examples:[/dim]
      eventlib prove in-flight
      eventlib prove in-flight --code v1.5 --format junit > proof.xml
      eventlib prove in-flight --log sqlite:///backup.db --each 0
      eventlib prove in-flight --json | jq '.unlawful[].keys'
    """
    refuse_missing(log_options.url)
    bounds = ProofBounds(each or None, moments, workers or cores())
    if code is None:
        found = prove_in_flight(log_options.url, *staged(log_options.app, scenario), bounds)
    else:
        directory = nearest(Path.cwd())[0]
        found = prove_revision(log_options.url, Code(directory, log_options.app, code), scenario, bounds)
    _write(found, "json" if as_json else form)
    raise typer.Exit(0 if found.holds else 1)


@prove.command()
def deploy(  # noqa: PLR0913, PLR0917  one argument for each option
    log_options: LogOptions,
    against: Annotated[
        str | None, option("--against", "REVISION", "The revision that runs now. [dim]Default: what was recorded[/dim]")
    ] = None,
    since: SinceOption = None,
    each: EachOption = 1,
    moments: MomentsOption = 100_000,
    workers: WorkersOption = None,
    code: CodeOption = None,
    form: FormOption = "text",
    as_json: JsonOption = False,
    scenario: ScenarioOption = None,
) -> None:
    """Preview a deployment: contracts, what is decided otherwise than before, and what is in flight.

    Besides what `eventlib prove in-flight` does, it compares the contracts with
    those of the log, and what the code decides with what was recorded (from
    --since on) or what --against decides. Exit code 0 if no contract breaks,
    all differences are declared (eventlib prove diff --accept), all ends
    lawfully, and nothing is damaged: what depends on damage is not known.

    [dim]Examples:[/dim]
      eventlib prove deploy
      eventlib prove deploy --against v1.4 --code v1.5 --format markdown
    """
    refuse_missing(log_options.url)
    bounds = ProofBounds(each or None, moments, workers or cores())
    deployment = Deployment(nearest(Path.cwd())[0], Versions(against, code), log_options.app, scenario, since)
    preview = deployment.preview(log_options.url, bounds)
    _write_deployment(preview, "json" if as_json else form)
    raise typer.Exit(1 if preview.objections else 0)


prove.command()(diff)
prove.command()(bisect)
prove.command()(shrink)
prove.command()(corpus)


def _write(found: InFlightProof, form: Form) -> None:
    match form:
        case "text":
            _print(found)
        case "json":
            output.print_json([in_flight_formats.as_json(found)])
        case "markdown":
            output.write_lines([in_flight_formats.as_markdown(found).encode()])
        case "junit":
            output.write_lines([in_flight_formats.as_junit(found)])


def _write_deployment(found: DeploymentPreview, form: Form) -> None:
    match form:
        case "text":
            _print_deployment(found)
        case "json":
            output.print_json([deploying.as_json(found)])
        case "markdown":
            output.write_lines([deploying.as_markdown(found, _SHOWN).encode()])
        case "junit":
            output.write_lines([deploying.as_junit(found)])


def _print_deployment(found: DeploymentPreview) -> None:
    output.say(found.headline, "bold red" if found.objections else "bold green")
    for each in found.problems:
        output.say(f"✗ {deploying.line(each)}", "red")
    output.say()
    print_diff(found.past, _SHOWN)
    output.say()
    _print(found.ahead)


def _print(found: InFlightProof) -> None:

    output.say(headline(found), "bold")
    for each in found.unlawful:
        output.say()
        output.say(f"✗ {keys_of(each)}: {each.why}", "red")
        for number, step in enumerate(each.story, start=1):
            output.say(f"  {number:>3}  {step}")
    for each in found.open:
        output.say()
        output.say(f"? {keys_of(each)}: not explored to the end: {each.why}", "yellow")
    for damage in found.damaged:
        output.say()
        output.say(f"? {damage}", "yellow")
    if found.in_flight:
        total = sum(each.moments for each in found.explored), sum(each.steps for each in found.explored)
        output.say()
        output.say(f"Explored: {total[0]:,} moments, {total[1]:,} steps between them. Not explored:")
        for line in found.left_out:
            output.say(f"- {line}")
