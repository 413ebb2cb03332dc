"""`eventlib diff`: what two versions of the code decide differently on what was recorded."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from eventlib.cli._common import output
from eventlib.cli._common.options import LogOptions, ServicesOption, SinceOption, argument, option, refuse_missing
from eventlib.cli.diff_report import print_diff
from eventlib.errors import WiringError
from eventlib.model.project import nearest
from eventlib.proof import Diff, Expected, Versions
from eventlib.proof import diff as compare
from eventlib.proof.formats import as_json, as_junit, as_markdown, as_sarif
from eventlib.proof.sharing import Wanted

Form = Literal["text", "markdown", "json", "junit", "sarif"]


def diff(  # noqa: PLR0913, PLR0917  one argument for each option
    log_options: LogOptions,
    revisions: Annotated[
        str | None,
        argument(
            "BASE..HEAD",
            "Two revisions of the repository; BASE alone: the working tree against it. Default: the working tree "
            "against what was recorded.",
        ),
    ] = None,
    service: ServicesOption = None,
    since: SinceOption = None,
    form: Annotated[Form, option("--format", "FORM", "text, markdown, json, junit or sarif.")] = "text",
    limit: Annotated[int, option("--limit", "N", "How many groups are shown in full.", min=0)] = 10,
    accept: Annotated[
        str | None,
        option(
            "--accept",
            "REASON",
            "Declare all these differences as expected, with a reason, in expected-differences.toml.",
        ),
    ] = None,
) -> None:
    """Show what two versions of the code decide differently on a recorded log.

    Each recorded input is decided by both versions. What differs is grouped by
    handler, input and kind, with what it comes to in events, money and units,
    the smallest example, and the changed lines that run in it. Exit code 0 if
    nothing differs but what expected-differences.toml declares, else 1.

    The working tree or a revision is compared with BASE; without BASE, with
    what was recorded. Nothing is written to the log, and no effect runs. Both
    versions use the packages that are installed here.

    [dim]Examples:[/dim]
      eventlib diff main
      eventlib diff v1.4..HEAD --since 2026-01-31
      eventlib diff main --format markdown > comment.md
      eventlib diff main --accept "refunds include the postage now"
    """
    refuse_missing(log_options.url)
    directory = nearest(Path.cwd())[0]
    wanted = Wanted(service or None, since)
    found = compare(log_options.url, directory, log_options.app, Versions.of(revisions), wanted)
    if accept is not None:
        _accept(directory, found, accept)
        return
    _print(found, form, limit)
    raise typer.Exit(1 if found.unexpected else 0)


def _accept(directory: Path, found: Diff, reason: str) -> None:
    if not reason.strip():
        raise WiringError("--accept needs a reason: it is what a reviewer reads")
    expected = Expected.read(directory)
    count = expected.accept(found.groups, reason.strip())
    output.terminal().print(
        f"{output.counted(count, 'kind')} of difference declared in {expected.path}", soft_wrap=True
    )


def _print(found: Diff, form: Form, limit: int) -> None:
    if form == "text":
        print_diff(found, limit)
        return
    made = {
        "markdown": lambda: as_markdown(found, limit).encode(),
        "json": lambda: output.json_line(as_json(found)),
        "junit": lambda: as_junit(found),
        "sarif": lambda: output.json_line(as_sarif(found)),
    }
    output.write_lines([made[form]()])
