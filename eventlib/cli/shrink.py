"""`eventlib shrink`: a decision that fails, from a log, as a test that is as small as it can be."""

from pathlib import Path
from typing import Annotated

import typer

from eventlib.cli._common import output
from eventlib.cli._common.options import AppOption, LogOption, LogOptions, run_on_log
from eventlib.errors import ContractError, WiringError
from eventlib.eventlog import EventLog
from eventlib.project import nearest
from eventlib.proof.against import OtherCode, changed_state, first_difference, other_code
from eventlib.proof.cases import Case, failing_case, how_it_fails, recorded_case
from eventlib.proof.shrinking import shrunk
from eventlib.proof.writing import as_test
from eventlib.replay.key_history import KeyHistory, key_history

EventOption = Annotated[
    str | None,
    typer.Option(
        "--event", metavar="EVENT_ID", help="The input, by its id or the beginning of it.", show_default=False
    ),
]


def shrink(  # noqa: PLR0913, PLR0917  one argument for each option
    context: typer.Context,
    decider: Annotated[str, typer.Argument(metavar="DECIDER", help="A decider's name.", show_default=False)],
    key: Annotated[str, typer.Argument(metavar="KEY", help="The decider's key.", show_default=False)],
    event: EventOption = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="REVISION",
            help="A revision that decides rightly: the test is of what it decides otherwise.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Write the test there, not to stdout.", show_default=False),
    ] = None,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Write a small test of a decision that fails, from a log.

    The newest input on which today's code raises, such as a parked one, is run
    again with ever fewer events and simpler fields, as long as it fails with the
    same error in the same place. The test fails until the code is mended.

    With --against, it is the first input that today's code decides otherwise
    than a revision that decides rightly, or after which it knows something else.
    The test expects what that revision decides.

    [dim]Examples:[/dim]
      eventlib shrink payment 536365
      eventlib shrink payment 536365 --event 6dd20bf1 -o tests/test_536365.py
      eventlib shrink order 536365 --against v1.4
    """
    log_options = LogOptions.of(context, app, log)
    history = _history(log_options, decider, key)
    if against is None:
        case, small, text = _failing(history, event)
    else:
        directory = nearest(Path.cwd())[0]
        with other_code(directory, log_options.app, against) as other:
            case, small, text = _differing(history, other, event)
    _write(text, out)
    many, few = output.counted(len(case.events), "event"), output.counted(len(small.events), "event")
    output.terminal(stderr=True).print(f"{many} became {few}", soft_wrap=True)


def _failing(history: KeyHistory, event: str | None) -> tuple[Case, Case, str]:
    case, failure, message = failing_case(history, event)
    small = shrunk(case, how_it_fails)
    found = small.failure()
    told = message if found is None else found[1]
    title = f"What failed on a log: `eventlib shrink {history.decider.name} {history.key}`."
    why = f"It raised {failure.error} in {failure.function}: {output.printable(told)}".replace("\\", "\\\\").rstrip(".")
    return case, small, as_test(small, title, why.replace('"', "'") + ".")


def _differing(history: KeyHistory, other: OtherCode, event: str | None) -> tuple[Case, Case, str]:
    case = first_difference(history, other, event)
    small = shrunk(case, other.differs)
    right = other.answer(small)
    if right.error:
        raise ContractError(f"{other.name} raises {right.error} there: name a revision that decides rightly")
    command = f"eventlib shrink {history.decider.name} {history.key} --against {other.name}"
    title, why = f"What was decided wrongly on a log: `{command}`.", f"It decides as {other.name} does."
    return case, small, as_test(small, title, why, right.emitted, changed_state(small, right))


def write_recorded(log_options: LogOptions, decider: str, key: str, event: str | None) -> None:
    """Print a test of the newest decision, or of an event's, as it was recorded."""
    case, decided = recorded_case(_history(log_options, decider, key), event)
    title = f"What was decided on a log: `eventlib history {decider} {key} --as-test`."
    _write(as_test(case, title, "It decides as it did.", decided), None)


def _history(log_options: LogOptions, decider: str, key: str) -> KeyHistory:
    async def asked(log: EventLog) -> KeyHistory:
        return await key_history(log, log.choreography.decider(decider), key)

    return run_on_log(log_options, asked)


def _write(text: str, out: Path | None) -> None:
    if out is None:
        output.write_lines([text.rstrip("\n").encode()])
        return
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise WiringError(f"{out} cannot be written: {error.strerror}; name another file with --out") from error
