"""`eventlib prove shrink`: a decision that fails, from a log, as a test that is as small as it can be."""

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from eventlib.cli._common import output
from eventlib.cli._common.options import LogOptions, argument, option, run_on_log
from eventlib.cli._common.scenario import ScenarioOption, staged
from eventlib.cli._common.searching import WhereOption, keys_of, run_on_sagas
from eventlib.errors import ContractError, WiringError
from eventlib.eventlog import EventLog
from eventlib.model.project import nearest
from eventlib.proof.against import OtherCode, other_code
from eventlib.proof.cases import InputFilter, recorded_case
from eventlib.proof.saga_tests import SagaHistories
from eventlib.proof.small_tests import SmallTest, of_difference, of_failure
from eventlib.proof.writing import Answer, as_test
from eventlib.replay.key_history import KeyHistory, key_history

EventOption = Annotated[str | None, option("--event", "EVENT_ID", "The input, by its id or the beginning of it.")]


NamesArgument = Annotated[list[str] | None, argument("[DECIDER] KEY", "A saga's key; or a decider's name and its key.")]


def shrink(  # noqa: PLR0913, PLR0917  one argument for each option
    log_options: LogOptions,
    names: NamesArgument = None,
    where: WhereOption = "",
    event: EventOption = None,
    against: Annotated[
        str | None,
        option("--against", "REVISION", "A revision that decides rightly: the test is of what it decides otherwise."),
    ] = None,
    out: Annotated[Path | None, option("--out -o", "FILE", "Write the test there, not to stdout.")] = None,
    scenario: ScenarioOption = None,
) -> None:
    """Write a small test of a decision that fails, from a log.

    Of a saga, or of the first one for which --where holds, it is the first input
    on which today's code raises, such as a parked one, whichever decider handles
    it; of a decider's key it is the newest such input. It is run again with ever
    fewer events and simpler fields, as long as it fails with the same error in
    the same place. The test fails until the code is mended.

    A saga of which nothing fails may have broken an invariant. Then its requests
    are explored in every order, with the external systems of the scenario, and
    made fewer as long as they break the same one; the test explores them again.

    With --against, it is the first input that today's code decides otherwise
    than a revision that decides rightly, or after which it knows something else.
    The test expects what that revision decides.

    [dim]Examples:[/dim]
      eventlib prove shrink 536365
      eventlib prove shrink --where "country = 'France' and status = 'placed'" --against v1.4
      eventlib prove shrink payment 536365 --event 6dd20bf1 -o tests/test_536365.py
    """
    decider, key = named(names or [], where)
    if decider is None and event is not None:
        raise typer.BadParameter("name the decider whose input it is: DECIDER KEY", param_hint="--event")
    with ExitStack() as open_now:
        other = None
        if against is not None:
            other = open_now.enter_context(other_code(nearest(Path.cwd())[0], log_options.app, against))
        if decider is not None:
            history, inputs = _history(log_options, decider, key), InputFilter(event or "")
            found = of_failure(history, inputs) if other is None else of_difference(history, other, inputs)
        elif key:
            found = _of_saga(log_options, key, other, scenario)
        else:
            found = _first_of(log_options, where, other, scenario)
    _write(found.text, out)
    many, few = output.counted(found.many, "event"), output.counted(found.few, "event")
    output.terminal(stderr=True).print(f"{many} became {few}", soft_wrap=True)


def named(names: Sequence[str], where: str = "") -> tuple[str | None, str]:
    """Return the decider and the key that are named; without a decider it is a saga's key, which --where may stand for."""
    if len(names) > 2 or bool(names) == bool(where.strip()):  # noqa: PLR2004  a decider, and its key
        raise typer.BadParameter("give a saga's key, or a decider and its key, or --where", param_hint="[DECIDER] KEY")
    return (names[0] if len(names) > 1 else None), (names[-1] if names else "")


def write_recorded(log_options: LogOptions, names: Sequence[str], event: str | None) -> None:
    """Print a test of the newest decision, or of an event's, as it was recorded; of a saga, of one that fails if one does."""
    decider, key = named(names)
    if decider is None:
        _write(_saga(log_options, key).recorded_test(), None)
        return
    case, decided = recorded_case(_history(log_options, decider, key), InputFilter(event or ""))
    title = f"What was decided on a log: `eventlib history {decider} {key} --as-test`."
    _write(as_test(case, title, "It decides as it did.", Answer(decided)), None)


def _saga(log_options: LogOptions, key: str) -> SagaHistories:
    return run_on_log(log_options, lambda log: SagaHistories.read(log, key))


def _of_saga(log_options: LogOptions, key: str, other: OtherCode | None, scenario: str | None) -> SmallTest:
    """Return the test of a saga's first wrong decision; else, without a right revision, of an invariant that it breaks."""
    saga = _saga(log_options, key)
    try:
        return saga.small_test(other)
    except ContractError:
        if other is not None or not saga.breaking.broken:
            raise
    return saga.breaking.small_test(*staged(log_options.app, scenario))


def _first_of(log_options: LogOptions, where: str, other: OtherCode | None, scenario: str | None) -> SmallTest:
    """Return the test of the first saga for which it holds and that goes wrong. Raises: WiringError for none."""
    keys = run_on_sagas(log_options, partial(keys_of, where))
    for key in keys:
        with suppress(ContractError):
            return _of_saga(log_options, key, other, scenario)
    raise WiringError(
        f"nothing goes wrong in the {output.counted(len(keys), 'saga')} that are so: {where}; `eventlib sagas list --where …` "
        "shows them, and --against REVISION finds what a revision decides otherwise"
    )


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
