"""`eventlib simulate`: runs schedules, and saves one that breaks an invariant."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from eventlib.cli._common import output
from eventlib.cli._common.options import AppOnly, JsonOption, WorkersOption, flag, option
from eventlib.cli._common.progress import ProgressBar
from eventlib.cli._common.scenario import ScenarioOption, staged
from eventlib.cli.simulate_report import (
    Diagram,
    SimulateOptions,
    explored_json,
    failure_json,
    print_counts,
    print_explored_text,
    print_failure,
    searched_json,
)
from eventlib.errors import ContractError
from eventlib.ground.fork_pool import cores
from eventlib.simulation.exhaustive import Bounds, explore
from eventlib.simulation.scenario import Recorded
from eventlib.simulation.schedule_files import load, save_failure
from eventlib.simulation.search import Case, Extent, Searched, play_again, search

_FOUND = "When an invariant is broken"


def simulate(  # noqa: PLR0913, PLR0917  one argument for each option
    log_options: AppOnly,
    schedules: Annotated[int, option("--schedules -n", "N", "How many schedules to run.", min=1)] = 1_000,
    orders: Annotated[int, option("--orders", "N", "How many orders a schedule has at most.", min=1, max=50)] = 2,
    seed: Annotated[int, option("--seed", "N", "The same seed gives the same schedules.")] = 1,
    workers: WorkersOption = None,
    replay: Annotated[Path | None, option("--replay", "FILE", "Run a saved schedule again.", dir_okay=False)] = None,
    save: Annotated[
        Path | None,
        option(
            "--save",
            "FILE",
            "Where the schedule is saved. [dim]Default: var/simulate/LAW.json[/dim]",
            dir_okay=False,
            rich_help_panel=_FOUND,
        ),
    ] = None,
    diagram: Annotated[
        Diagram, typer.Option("--diagram", help="How the schedule's story is drawn.", rich_help_panel=_FOUND)
    ] = "text",
    exhaustive: Annotated[
        bool,
        typer.Option("--exhaustive", help="Explore all interleavings of the scenario's small case instead."),
    ] = False,
    no_deadlines: Annotated[
        bool, flag("--no-deadlines", "With --exhaustive: no deadline passes, which is faster.")
    ] = False,
    moments: Annotated[
        int | None,
        option("--moments", "N", "With --exhaustive: give up after so many moments. [dim]Default: never[/dim]", min=1),
    ] = None,
    as_json: JsonOption = False,
    scenario: ScenarioOption = None,
) -> None:
    """Run the services under every kind of fault, and check the invariants.

    Deciders, tasks, effects and restores are the real ones. Time and order,
    crashes, zombies, duplicates, and external systems that answer late, twice
    or never are simulated. A schedule that breaks an invariant is minimized,
    drawn, and saved.

    Exit code 1 when an invariant is broken, or --moments were too few.

    [dim]Examples:[/dim]
      eventlib simulate
      eventlib simulate --orders 3 --schedules 10000 --seed 7
      eventlib simulate --exhaustive
      eventlib simulate --replay var/simulate/money_is_conserved.json
    """
    options = SimulateOptions(log_options.app, scenario, diagram, as_json)
    with _unlogged():
        if exhaustive:
            raise typer.Exit(print_explored(options, Bounds(deadlines=not no_deadlines, moments=moments)))
        if replay is not None:
            raise typer.Exit(print_replayed(options, replay))
        raise typer.Exit(print_searched(options, Extent(schedules, orders, seed, workers or cores()), save))


@contextmanager
def _unlogged() -> Iterator[None]:
    """Have simulated processes log nothing: it would read as news of real ones."""
    logger = logging.getLogger("eventlib")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


def print_searched(options: SimulateOptions, extent: Extent, save: Path | None) -> int:
    """Run schedules, print the result, and return the exit code: 1 when an invariant is broken."""
    case = _case(options)
    searched = _searched(case, extent, show=not options.as_json)
    failure = searched.failure
    path: Path | None = None
    if failure is not None:
        path = save or Path("var/simulate") / f"{failure.violation.invariant.name}.json"
        save_failure(path, case.stage.declared.name, case.stage.code_version, failure)
    if options.as_json:
        output.print_json([searched_json(searched, extent, path)])
        return int(failure is not None)
    print_counts(searched, len(case.stage.declared.invariants))
    if failure is not None and path is not None:
        print_failure(failure, options)
        output.say()
        output.say(f"Saved as {path}. To see it again: eventlib simulate --replay {path}")
    return int(failure is not None)


def print_replayed(options: SimulateOptions, path: Path) -> int:
    """Run a saved schedule again, print the result, and return the exit code: 1 when an invariant is broken."""
    saved = load(path)
    case = _case(options)
    if saved.application != case.stage.declared.name:
        raise ContractError(f"{path} is a schedule of {saved.application}, and this is {case.stage.declared.name}")
    choices = Recorded(saved.choices)
    failure = play_again(case, saved.orders, choices)
    if options.as_json:
        found = None if failure is None else failure_json(failure)
        output.print_json([{"file": str(path), "differs": choices.differs or None, "failure": found}])
        return int(failure is not None)
    if choices.differs:
        changed = saved.code != case.stage.code_version
        why = "the code has changed since" if changed else "the scenario or the simulator has changed since"
        output.say(f"Not exactly the saved schedule, {why}: {choices.differs}; from there on no fault occurs.")
    if failure is None:
        output.say(f"No invariant is broken any more. It was {saved.law}.")
        return 0
    print_failure(failure, options)
    return 1


def print_explored(options: SimulateOptions, bounds: Bounds) -> int:
    """Explore the small case, print its size, and return the exit code: 1 unless all of it keeps the invariants."""
    case = _case(options)
    began = perf_counter()
    found = explore(case.stage, case.scenario(), bounds)
    seconds = perf_counter() - began
    code = int(found.violation is not None or not found.complete)
    if options.as_json:
        output.print_json([explored_json(found, seconds)])
        return code
    print_explored_text(found, len(case.stage.declared.invariants), seconds)
    return code


def _case(options: SimulateOptions) -> Case:
    return Case(*staged(options.app, options.scenario))


def _searched(case: Case, extent: Extent, *, show: bool) -> Searched:
    with ProgressBar("schedules", quiet=not show) as bar:

        def played(count: int, shrinks: bool) -> None:
            bar.show(min(count, extent.schedules), extent.schedules, "shrinking" if shrinks else "schedules")

        return search(case, extent, played)
