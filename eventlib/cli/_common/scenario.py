"""The application's scenario, for commands that simulate."""

from typing import Annotated

import typer

from eventlib.model.project import load_choreography, load_simulation
from eventlib.simulation.scenario import Scenario, scenario_class
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
    choreography = load_choreography(app)
    return Stage(choreography), scenario_class(load_simulation(scenario))
