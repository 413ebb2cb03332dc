"""The application's scenario, for commands that simulate."""

from typing import Annotated

import typer

from eventlib.errors import WiringError
from eventlib.project import load_choreography, load_simulation
from eventlib.simulation.scenario import Scenario
from eventlib.simulation.stage import Stage

ScenarioOption = Annotated[
    str | None,
    typer.Option(
        "--scenario",
        metavar="MODULE:CLASS",
        help="The scenario. [dim]Default: simulation in \\[tool.eventlib] of pyproject.toml[/dim]",
        rich_help_panel="Where to look",
        show_default=False,
    ),
]


def staged(app: str | None, scenario: str | None) -> tuple[Stage, type[Scenario]]:
    """Return the application on its stage, and its scenario. Raises: WiringError when there is none."""
    choreography, found = load_choreography(app), load_simulation(scenario)
    if not (isinstance(found, type) and issubclass(found, Scenario)):
        raise WiringError(f"{found!r} is not a scenario class: derive one from eventlib.simulation.scenario.Scenario")
    return Stage(choreography), found
