"""The application's scenario, for commands that simulate."""

from typing import Annotated

from eventlib.cli._common.options import option
from eventlib.model.project import load_choreography, load_simulation
from eventlib.simulation.scenario import Scenario, scenario_class
from eventlib.simulation.stage import Stage

ScenarioOption = Annotated[
    str | None,
    option(
        "--scenario",
        "MODULE:CLASS",
        "The scenario. [dim]Default: simulation in \\[tool.eventlib] of pyproject.toml[/dim]",
        rich_help_panel="Where to look",
    ),
]


def staged(app: str | None, scenario: str | None) -> tuple[Stage, type[Scenario]]:
    """Return the application on its stage, and its scenario. Raises: WiringError when there is none."""
    choreography = load_choreography(app)
    return Stage(choreography), scenario_class(load_simulation(scenario))
