"""`eventlib prove`: whether what is under way on a log ends lawfully under today's code, whatever order things come in."""

import asyncio
from typing import Annotated

import typer
from rich.text import Text

from eventlib.cli._common import output
from eventlib.cli._common.options import AppOption, JsonOption, LogOption, LogOptions, refuse_missing
from eventlib.cli._common.scenario import ScenarioOption, staged
from eventlib.fork_pool import cores
from eventlib.opening import open_log
from eventlib.proof.proving import InFlight, InFlightProof, ProofBounds, Proved

_NAMED = 5


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
    as_json: JsonOption = False,
    scenario: ScenarioOption = None,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Prove that what is in flight ends lawfully under today's code.

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
      eventlib prove --in-flight --log sqlite:///backup.db --each 0
      eventlib prove --in-flight --json | jq '.unlawful[].keys'
    """
    if not in_flight:
        raise typer.BadParameter("say what is to be proved: --in-flight", param_hint="--in-flight")
    log_options = LogOptions.of(context, app, log)
    refuse_missing(log_options.url)
    stage, case = staged(log_options.app, scenario)

    async def read() -> InFlight:
        async with open_log(log_options.url, stage.declared, read_only=True) as opened:
            return await InFlight.read(opened, stage)

    found = asyncio.run(read()).prove(case, ProofBounds(each or None, moments, workers or cores()))
    if as_json:
        output.print_json([_json(found)])
    else:
        _print(found)
    raise typer.Exit(0 if found.holds else 1)


def _print(found: InFlightProof) -> None:
    console = output.terminal()

    def told(text: str, style: str = "") -> None:
        console.print(Text(output.printable(text), style=style), soft_wrap=True)

    told(_headline(found), "bold")
    for each in found.unlawful:
        console.print()
        told(f"✗ {_keys(each)}: {each.why}", "red")
        for number, step in enumerate(each.story, start=1):
            told(f"  {number:>3}  {step}")
    for each in found.open:
        console.print()
        told(f"? {_keys(each)}: not explored to the end: {each.why}", "yellow")
    if found.in_flight:
        total = sum(each.moments for each in found.explored), sum(each.steps for each in found.explored)
        console.print()
        told(f"Explored: {total[0]:,} moments, {total[1]:,} steps between them. Not explored:")
        for line in found.left_out:
            told(f"- {line}")


def _headline(found: InFlightProof) -> str:
    if not found.in_flight:
        return "Nothing is in flight."
    sagas = f"{found.in_flight:,} in flight, {output.counted(found.shapes, 'shape')}"
    if found.holds:
        return f"{sagas}, all end lawfully within {output.counted(found.farthest, 'step')}."
    parts = [
        f"{sum(len(each.keys) for each in those):,} {what}"
        for what, those in (("that do not end lawfully", found.unlawful), ("not explored to the end", found.open))
        if those
    ]
    return f"{sagas}: {', '.join(parts)}."


def _keys(each: Proved) -> str:
    others = [key for key in each.keys if key != each.key]
    if not others:
        return each.key
    named = ", ".join(others[:_NAMED]) + (", …" if len(others) > _NAMED else "")
    return f"{each.key} (and {len(others):,} like it: {named})"


def _json(found: InFlightProof) -> dict[str, object]:
    return {
        "holds": found.holds,
        "in_flight": found.in_flight,
        "shapes": found.shapes,
        "farthest": found.farthest,
        "moments": sum(each.moments for each in found.explored),
        "steps": sum(each.steps for each in found.explored),
        "unlawful": [_proved(each) for each in found.unlawful],
        "unexplored": [_proved(each) for each in found.open],
        "left_out": found.left_out,
    }


def _proved(each: Proved) -> dict[str, object]:
    return {
        "key": each.key,
        "keys": each.keys,
        "why": each.why,
        "law": each.invariant or None,
        "story": each.story,
        "moments": each.moments,
    }
