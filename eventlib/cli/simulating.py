"""`eventlib simulate`: schedules are played, and one that breaks an invariant is shown and saved."""

from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Literal

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from eventlib.cli import output
from eventlib.cli.lifelines import print_diagram
from eventlib.cli.project import load_choreography, load_simulation
from eventlib.errors import ContractError, WiringError
from eventlib.simulation.exhaustive.explore import explore
from eventlib.simulation.scenario import Recorded, Scenario
from eventlib.simulation.schedule_files import load, save_failure
from eventlib.simulation.search import Case, Extent, Failure, Searched, play_again, search
from eventlib.simulation.stage import Stage
from eventlib.simulation.story import arrows, mermaid

_REFRESHED_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class SimulateOptions:
    """What somebody wants simulated, and how it is shown."""

    app: str | None
    scenario: str | None
    diagram: Literal["text", "mermaid", "none"]
    as_json: bool


def print_searched(wish: SimulateOptions, extent: Extent, save: Path | None) -> int:
    """Play schedules, print what came of it, and return the exit code: 1 when an invariant is broken."""
    case = _case(wish)
    searched = _searched(case, extent, show=not wish.as_json)
    failure = searched.failure
    path: Path | None = None
    if failure is not None:
        path = save or Path("var/simulate") / f"{failure.violation.invariant.name}.json"
        save_failure(path, case.stage.declared.name, case.stage.code_version, failure)
    if wish.as_json:
        output.print_json([_json(searched, extent, path)])
        return int(failure is not None)
    console = output.terminal()
    _print_counts(console, searched, len(case.stage.declared.invariants))
    if failure is not None and path is not None:
        _print_failure(console, failure, wish)
        console.print(f"\nSaved as {path}. To see it again: eventlib simulate --replay {path}")
    return int(failure is not None)


def print_replayed(wish: SimulateOptions, path: Path) -> int:
    """Play a saved schedule again, print what came of it, and return the exit code: 1 when an invariant is broken."""
    saved = load(path)
    case = _case(wish)
    if saved.application != case.stage.declared.name:
        raise ContractError(f"{path} is a schedule of {saved.application}, and this is {case.stage.declared.name}")
    choices = Recorded(saved.choices)
    failure = play_again(case, saved.orders, choices)
    if wish.as_json:
        found = None if failure is None else _failure_json(failure)
        output.print_json([{"file": str(path), "differs": choices.differs or None, "failure": found}])
        return int(failure is not None)
    console = output.terminal()
    if choices.differs:
        changed = saved.code != case.stage.code_version
        why = "the code has changed since" if changed else "the scenario or the simulator has changed since"
        console.print(
            f"Not quite the schedule that was saved, {why}: {choices.differs}; from there on nothing goes wrong."
        )
    if failure is None:
        console.print(f"No invariant is broken any more. It was {saved.law}.")
        return 0
    _print_failure(console, failure, wish)
    return 1


def print_explored(wish: SimulateOptions) -> int:
    """Explore the small case, print how much there was, and return the exit code: 1 when an invariant is broken."""
    case = _case(wish)
    began = perf_counter()
    found = explore(case.stage, case.scenario())
    seconds = perf_counter() - began
    if wish.as_json:
        failure = (
            None if found.violation is None else {"law": found.violation.invariant.name, "key": found.violation.key}
        )
        counts = {"moments": found.moments, "steps": found.steps, "ends": found.ends, "seconds": round(seconds, 3)}
        output.print_json([{**counts, "failure": failure, "story": list(found.story)}])
        return int(found.violation is not None)
    console = output.terminal()
    what = "No invariant is broken" if found.violation is None else "An invariant is broken"
    console.print(
        f"{what}: {found.moments:,} moments, {found.steps:,} steps between them, {found.ends:,} ends, "
        f"{len(case.stage.declared.invariants)} invariants, {seconds:.1f} s."
    )
    for number, step in enumerate(found.story, start=1):
        console.print(Text(f"  {number:>3}  {step}"))
    if found.violation is not None:
        console.print(Text.assemble(("✗ ", "bold red"), str(found.violation)))
    return int(found.violation is not None)


def _case(wish: SimulateOptions) -> Case:
    choreography, scenario = load_choreography(wish.app), load_simulation(wish.scenario)
    if not (isinstance(scenario, type) and issubclass(scenario, Scenario)):
        raise WiringError(
            f"{scenario!r} is no class of scenarios: derive one from eventlib.simulation.scenario.Scenario"
        )
    return Case(Stage(choreography), scenario)


def _searched(case: Case, extent: Extent, *, show: bool) -> Searched:
    if not show:
        return search(case, extent, lambda _played, _shrinks: None)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # Refreshed by hand: a bar that refreshes itself is a thread, and processes are forked beside it.
    with Progress(*columns, console=output.terminal(stderr=True), transient=True, auto_refresh=False) as progress:
        bar = progress.add_task("schedules", total=extent.schedules)
        shown_at = 0.0

        def played(count: int, shrinks: bool) -> None:
            nonlocal shown_at
            now = perf_counter()
            if now - shown_at >= _REFRESHED_EVERY_S:
                shown_at = now
                what = "shrinking" if shrinks else "schedules"
                progress.update(bar, completed=min(count, extent.schedules), description=what, refresh=True)

        return search(case, extent, played)


def _print_counts(console: Console, searched: Searched, invariants: int) -> None:
    played = searched.played
    rate = played.schedules / searched.seconds if searched.seconds else 0
    what = "No invariant is broken" if searched.failure is None else "An invariant is broken"
    console.print(
        f"{what}: {played.schedules:,} schedules of {played.orders:,} orders, {played.steps:,} steps, {invariants} invariants and "
        f"those of any log, {searched.seconds:.1f} s, {rate:,.0f} schedules/s."
    )
    if searched.failure is None:
        for fault, times in played.faults.most_common():
            console.print(Text(f"{times:>11,}  {fault}"))


def _print_failure(console: Console, failure: Failure, wish: SimulateOptions) -> None:
    violation = failure.violation
    drawn = arrows(failure.story)
    console.print()
    if wish.diagram == "mermaid":
        print(mermaid(drawn, f"{violation.invariant.name}: {violation.invariant.sentence}"))
        return
    if wish.diagram == "text":
        print_diagram(console, drawn)
    console.print(
        Text.assemble(("✗ ", "bold red"), (violation.invariant.name, "bold red"), f"  {violation.invariant.sentence}")
    )
    console.print(Text(f"  not so for {violation.invariant.key} {violation.key}: {violation.what_was_known}"))


def _json(searched: Searched, extent: Extent, path: Path | None) -> dict[str, object]:
    failure, played = searched.failure, searched.played
    return {
        "seed": extent.seed,
        "orders": extent.orders,
        "schedules": played.schedules,
        "orders_played": played.orders,
        "steps": played.steps,
        "faults": dict(played.faults.most_common()),
        "seconds": round(searched.seconds, 3),
        "file": None if path is None else str(path),
        "failure": None if failure is None else _failure_json(failure),
    }


def _failure_json(failure: Failure) -> dict[str, object]:
    violation = failure.violation
    return {
        "law": violation.invariant.name,
        "sentence": violation.invariant.sentence,
        "key": violation.key,
        "known": violation.what_was_known,
        "story": [asdict(line) for line in failure.story],
    }
