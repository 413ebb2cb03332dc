"""Explores every order of a few requests in a test, and checks the invariants of an application."""

from collections.abc import Sequence

from eventlib.model.choreography import Choreography
from eventlib.model.event import Event
from eventlib.simulation.exhaustive import Bounds, Explored, explore
from eventlib.simulation.scenario import Scenario, SmallCase
from eventlib.simulation.stage import Stage

MOMENTS = 20_000


def check_invariants(
    app: Choreography,
    scenario: type[Scenario],
    *requests: Event,
    before: Sequence[Event] = (),
    moments: int = MOMENTS,
) -> None:
    """Check an application's invariants in every order in which it can handle some requests, and be answered outside.

    The events of `before` are handled first; the scenario has the external systems. The nearest moments are explored, so many
    of them. Raises: AssertionError with the invariant that breaks, and the shortest story to it; WiringError without requests.
    """
    found = explored(Stage(app), scenario, SmallCase(before, requests), moments)
    told = "\n".join(f"{number:>3}  {step}" for number, step in enumerate(found.story, start=1))
    assert found.violation is None, f"{found.violation}\n{told}"  # noqa: S101  a test's own words


def explored(stage: Stage, scenario: type[Scenario], case: SmallCase, moments: int) -> Explored:
    """Explore a case with the external systems of a scenario."""
    with_case = type(scenario.__name__, (scenario,), {"small_case": lambda _: case})
    return explore(stage, with_case(), Bounds(moments=moments))
