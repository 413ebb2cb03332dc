"""`eventlib prove corpus`: recorded decisions that cover the application's code, kept beside it for its tests."""

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from eventlib.cli._common import output
from eventlib.cli._common.options import AppOption, JsonOption, LogOptions, option, refuse_missing
from eventlib.model.project import load_choreography, nearest
from eventlib.opening import open_log
from eventlib.proof.corpus import Cut
from eventlib.proof.corpus import cut as cut_from
from eventlib.proof.corpus.cutting import KINDS


def corpus(
    context: typer.Context,
    out: Annotated[Path, option("--out -o", "DIR", "Where the corpus is written.", file_okay=False)] = Path(
        "tests/corpus"
    ),
    from_: Annotated[
        str | None, option("--from", "URL", "Which log, backup or archive. [dim]Default: $EVENTLIB_LOG[/dim]")
    ] = None,
    sagas: Annotated[int, option("--sagas", "N", "At most so many sagas.", min=1)] = 2_000,
    as_json: JsonOption = False,
    app: AppOption = None,
) -> None:
    """Cut a corpus from a log: few sagas that cover what the log has.

    Sagas are chosen, each time the one that adds most, until every handler with
    each of its inputs, every line of the application that runs, every outcome,
    and every order of two inputs of a key is covered. Their decisions are
    written with the schemas of their values. Keys and personal texts become
    pseudonyms of the same shape, the same ones everywhere; other fields stay as
    they are, so mark what is personal. Decisions that today's code makes
    otherwise are left out: accept or mend those first, with `eventlib prove diff`.

    pytest decides the corpus again once pyproject.toml names it:
    [tool.eventlib] corpus = "tests/corpus"

    [dim]Examples:[/dim]
      eventlib prove corpus --from archive:archive --sagas 2000
      eventlib prove corpus --from sqlite:///backup.db --out tests/corpus
    """
    log_options = LogOptions.of(context, app, from_)
    refuse_missing(log_options.url)
    choreography = load_choreography(log_options.app)

    async def made() -> Cut:
        async with open_log(log_options.url, choreography, read_only=True) as log:
            return await cut_from(log, out, sagas, nearest(Path.cwd())[0])

    found = asyncio.run(made())
    if as_json:
        output.print_json([{"directory": str(out), **asdict(found), "whole": found.is_whole}])
    else:
        _print(found, out)


def _print(found: Cut, out: Path) -> None:
    output.say(
        f"{output.counted(found.sagas, 'saga')} of {found.of:,}, {output.counted(found.decisions, 'decision')}, "
        f"{found.size / 1000:,.0f} kB in {out}"
    )
    for each in found.covered:
        style = "" if each.there == each.covered else "yellow"
        output.say(f"{each.covered:>7,} of {each.there:,} {KINDS[each.kind]}", style)
    for line in found.left_out:
        output.say(f"left out: {line}", "yellow")
    if not found.is_whole:
        output.say("Allow more sagas with --sagas, and all of it is covered.")
