"""`eventlib prove diff`: what two versions of the code decide differently on what was recorded."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from eventlib.cli._common import output
from eventlib.cli._common.names import ServicesOption
from eventlib.cli._common.options import JsonOption, LogOptions, SinceOption, argument, option, refuse_missing
from eventlib.cli.replay_report import print_lines
from eventlib.errors import WiringError
from eventlib.model.project import nearest
from eventlib.proof import Diff, DifferenceGroup, Expected, Versions, deploying
from eventlib.proof import diff as compare
from eventlib.proof.formats import (
    as_json,
    as_junit,
    as_markdown,
    as_sarif,
    counts,
    debugger_command,
    group_line,
    headline,
)
from eventlib.proof.sharing import Wanted
from eventlib.replay.difference_lines import difference_lines
from eventlib.values import iso_ms

if TYPE_CHECKING:
    from eventlib.proof.beside import LiveProof
    from eventlib.proof.deploying import DeploymentPreview

Form = Literal["text", "markdown", "json", "junit", "sarif"]
_NAMED = 5
"""How many sagas of a group are named."""


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
    as_json: JsonOption = False,
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
      eventlib prove diff main
      eventlib prove diff v1.4..HEAD --since 2026-01-31
      eventlib prove diff main --format markdown > comment.md
      eventlib prove diff main --accept "refunds include the postage now"
    """
    refuse_missing(log_options.url)
    directory = nearest(Path.cwd())[0]
    wanted = Wanted(service or None, since)
    found = compare(log_options.url, directory, log_options.app, Versions.of(revisions), wanted)
    if accept is not None:
        accept_differences(directory, found, accept)
        return
    _print(found, "json" if as_json else form, limit)
    raise typer.Exit(1 if found.unexpected else 0)


def accept_differences(directory: Path, found: Diff, reason: str) -> None:
    """Declare differences as expected. Raises: WiringError for an empty reason."""
    if not reason.strip():
        raise WiringError("--accept needs a reason: it is what a reviewer reads")
    expected = Expected.read(directory)
    count = expected.accept(found.groups, reason.strip())
    output.say(f"{output.counted(count, 'kind')} of difference declared in {expected.path}")


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


def print_verdict(found: "DeploymentPreview | LiveProof", past: Diff, limit: int) -> None:
    """Print the verdict on a deployment: its headline, the contracts that it breaks, and what is decided otherwise."""
    output.say(found.headline, "bold red" if found.objections else "bold green")
    for each in found.problems:
        output.say(f"✗ {deploying.line(each)}", "red")
    output.say()
    print_diff(past, limit)


def print_diff(found: Diff, limit: int) -> None:
    """Print what differs, the `limit` most frequent groups in full."""
    for each in found.damaged:
        output.say(f"Damage: {each}; what depends on it is not compared.", "red")
    for note in found.notes:
        output.say(f"Note: {note}.", "yellow")
    output.say(headline(found), "bold" if found.groups else "")
    for group in found.groups[:limit]:
        output.say()
        _print_group(group)
    if len(found.groups) > limit:
        output.say()
        output.say(f"… and {output.counted(len(found.groups) - limit, 'group')} more: --limit shows them")
    for each in found.stale:
        told = f"Expected, and not there: {output.printable(each)}; remove it from expected-differences.toml"
        output.say(told, "yellow")
    if found.groups and not found.unexpected:
        output.say()
        output.say("All of it is expected.")


def _print_group(group: DifferenceGroup) -> None:
    difference = group.example.difference
    output.say(group_line(group), "bold")
    names = ", ".join(map(output.printable, group.sagas[:_NAMED])) + (", …" if len(group.sagas) > _NAMED else "")
    output.say(f"  {counts(group)}: {names}")
    if group.is_expected:
        output.say(f"  expected: {group.reason}", "green")
    for line in group.lines:
        output.say(f"  changed and run: {line}")
    at = iso_ms(difference.at_ms)
    output.say(f"  the smallest: {difference.saga}, {at}", "dim")
    print_lines(difference_lines(group.example.before, group.example.after, difference.why))
    output.say(f"  {debugger_command(difference)}", "dim")
