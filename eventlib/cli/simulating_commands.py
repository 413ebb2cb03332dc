"""The command that looks for the bug first: its name, its options and its help."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from eventlib.cli.options import AppOption, JsonOption, LogOptions

Diagram = Literal["text", "mermaid", "none"]
_FOUND = "When an invariant is broken"


def simulate(  # noqa: PLR0913, PLR0917  one argument for each option
    context: typer.Context,
    schedules: Annotated[
        int, typer.Option("--schedules", "-n", metavar="N", min=1, help="How many schedules are played.")
    ] = 1_000,
    orders: Annotated[
        int, typer.Option("--orders", metavar="N", min=1, max=50, help="Of how many orders a schedule has at most.")
    ] = 2,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="Which schedules: the same seed, the same ones.")
    ] = 1,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            metavar="N",
            min=1,
            help="How many processes share the schedules. [dim]Default: the cores there are[/dim]",
            show_default=False,
        ),
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option(
            "--replay", metavar="FILE", dir_okay=False, help="Play a saved schedule again.", show_default=False
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            "--save",
            metavar="FILE",
            dir_okay=False,
            help="Where the schedule is saved. [dim]Default: var/simulate/LAW.json[/dim]",
            rich_help_panel=_FOUND,
            show_default=False,
        ),
    ] = None,
    diagram: Annotated[
        Diagram, typer.Option("--diagram", help="How its story is drawn.", rich_help_panel=_FOUND)
    ] = "text",
    exhaustive: Annotated[
        bool,
        typer.Option("--exhaustive", help="Explore all orders of things in the scenario's small case instead."),
    ] = False,
    as_json: JsonOption = False,
    scenario: Annotated[
        str | None,
        typer.Option(
            "--scenario",
            metavar="MODULE:CLASS",
            help="The surroundings. [dim]Default: simulation in \\[tool.eventlib] of pyproject.toml[/dim]",
            rich_help_panel="Where to look",
            show_default=False,
        ),
    ] = None,
    app: AppOption = None,
) -> None:
    """Play the services under every fault there is, and check the invariants.

    Deciders, tasks, effects and restoring are the real ones. Simulated are
    time and order, crashes, zombies, duplicates, and an outside world that
    answers late, twice or never. A schedule that breaks an invariant is made as
    short as it can be, drawn, and saved.

    Ends with exit code 1 when an invariant is broken.

    [dim]Examples:[/dim]
      eventlib simulate
      eventlib simulate --orders 3 --schedules 10000 --seed 7
      eventlib simulate --exhaustive
      eventlib simulate --replay var/simulate/money_is_conserved.json
    """
    from eventlib.cli.simulating import SimulateOptions, print_explored, print_replayed, print_searched
    from eventlib.fork_pool import cores
    from eventlib.simulation.search import Extent

    place = LogOptions.of(context, app, None)
    wish = SimulateOptions(place.app, scenario, diagram, as_json)
    if exhaustive:
        raise typer.Exit(print_explored(wish))
    if replay is not None:
        raise typer.Exit(print_replayed(wish, replay))
    raise typer.Exit(print_searched(wish, Extent(schedules, orders, seed, workers or cores()), save))
