"""`eventlib prove`: what versions of the code decide, whether what is in flight ends lawfully, and a deployment's preview."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import typer

from eventlib.cli._common import output
from eventlib.cli._common.options import (
    JsonOption,
    LogOptions,
    SinceOption,
    WorkersOption,
    flag,
    option,
    refuse_missing,
)
from eventlib.cli._common.prompts import actor
from eventlib.cli._common.scenario import ScenarioOption, staged
from eventlib.cli._common.typer_ext import group
from eventlib.cli.bisect import bisect
from eventlib.cli.corpus import corpus
from eventlib.cli.diff import diff, print_verdict
from eventlib.cli.shrink import shrink
from eventlib.ground.fork_pool import cores
from eventlib.log.open import open_port
from eventlib.model.project import nearest
from eventlib.operations.deployment_reports import keep_report
from eventlib.proof import Versions, deploying, in_flight_formats
from eventlib.proof.by_revision import prove_in_flight, prove_revision
from eventlib.proof.decided import Code
from eventlib.proof.deploying import Deployment, DeploymentPreview
from eventlib.proof.in_flight_formats import headline, keys_of
from eventlib.proof.proving import InFlightProof, ProofBounds

Form = Literal["text", "markdown", "json", "junit"]
T = TypeVar("T")

_SHOWN = 10
"""How many kinds of difference are shown in full."""


prove = group("Compare what versions of the code decide on a log, and prove a change before it is deployed.")

FormOption = Annotated[Form, option("--format", "FORM", "text, markdown, json or junit.")]


@dataclass(frozen=True, slots=True)
class ProofOptions:
    """The options of a proof: how much is explored, by which code, and how the result is printed."""

    each: Annotated[int, option("--each", "N", "How many sagas of each shape are explored; 0: all.", min=0)] = 1
    moments: Annotated[int, option("--moments", "N", "Give up on a saga after so many moments.", min=1)] = 100_000
    workers: WorkersOption = None
    code: Annotated[
        str | None,
        option(
            "--code", "REVISION", "Prove it under a revision of the repository. [dim]Default: the working tree[/dim]"
        ),
    ] = None
    form: FormOption = "text"
    as_json: JsonOption = False
    scenario: ScenarioOption = None

    @property
    def bounds(self) -> ProofBounds:
        """How much is explored."""
        return ProofBounds(self.each or None, self.moments, self.workers or cores())


@prove.command()
def in_flight(log_options: LogOptions, options: ProofOptions) -> None:
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
    if options.code is None:
        found = prove_in_flight(log_options.url, *staged(log_options.app, options.scenario), options.bounds)
    else:
        code = Code(nearest(Path.cwd())[0], log_options.app, options.code)
        found = prove_revision(log_options.url, code, options.scenario, options.bounds)
    formats = in_flight_formats
    _write(found, options, _print, formats.as_json, formats.as_markdown, formats.as_junit)
    raise typer.Exit(0 if found.holds else 1)


@prove.command()
def deploy(
    log_options: LogOptions,
    against: Annotated[
        str | None, option("--against", "REVISION", "The revision that runs now. [dim]Default: what was recorded[/dim]")
    ] = None,
    since: SinceOption = None,
    keep: Annotated[bool, flag("--keep", "Keep the report on the log, for the console and the admin API.")] = False,
    *,
    options: ProofOptions,
) -> None:
    """Preview a deployment: contracts, what is decided otherwise than before, and what is in flight.

    Besides what `eventlib prove in-flight` does, it compares the contracts with
    those of the log, and what the code decides with what was recorded (from
    --since on) or what --against decides. Exit code 0 if no contract breaks,
    all differences are declared (eventlib prove diff --accept), all ends
    lawfully, and nothing is damaged: what depends on damage is not known.

    The log is only read, but for the report (the verdict, counts and the first
    differences), which --keep writes to it: the deployment's page shows it.

    [dim]Examples:[/dim]
      eventlib prove deploy
      eventlib prove deploy --code v1.5 --keep
      eventlib prove deploy --against v1.4 --code v1.5 --format markdown
    """
    refuse_missing(log_options.url)
    versions = Versions(against, options.code)
    deployment = Deployment(nearest(Path.cwd())[0], versions, log_options.app, options.scenario, since)
    by = actor() if keep else ""
    preview = deployment.preview(log_options.url, options.bounds)
    if keep:
        asyncio.run(_keep(log_options.url, preview, by))
    markdown = partial(deploying.as_markdown, limit=_SHOWN)
    _write(preview, options, _print_deployment, deploying.as_json, markdown, deploying.as_junit)
    raise typer.Exit(1 if preview.objections else 0)


async def _keep(url: str, preview: DeploymentPreview, by: str) -> None:
    log = await open_port(url)
    try:
        await keep_report(log, deploying.as_json(preview), by)
    finally:
        await log.close()


prove.command()(diff)
prove.command()(bisect)
prove.command()(shrink)
prove.command()(corpus)


def _write(
    found: T,
    options: ProofOptions,
    show: Callable[[T], None],
    as_json: Callable[[T], object],
    as_markdown: Callable[[T], str],
    as_junit: Callable[[T], bytes],
) -> None:
    match "json" if options.as_json else options.form:
        case "text":
            show(found)
        case "json":
            output.print_json([as_json(found)])
        case "markdown":
            output.write_lines([as_markdown(found).encode()])
        case "junit":
            output.write_lines([as_junit(found)])


def _print_deployment(found: DeploymentPreview) -> None:
    print_verdict(found, found.past, _SHOWN)
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
