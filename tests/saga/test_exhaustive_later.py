"""A gateway, and a carrier, that answer later: a callback, a wish to cancel and each deadline at every moment keep the invariants."""

import pytest

from eventlib.simulation.exhaustive import Bounds, explore
from eventlib.simulation.stage import Stage
from services import shop
from services.simulation.later import SmallCarrierScenario, SmallGatewayScenario
from services.simulation.scenario import ShopScenario
from tests.saga.planted import written

SMALL = pytest.mark.parametrize(
    ("scenario", "reliable"), [(SmallGatewayScenario, ("carrier",)), (SmallCarrierScenario, ("gateway",))]
)


@pytest.mark.heavy
@SMALL
def test_a_callback_at_every_moment(scenario: type[ShopScenario], reliable: tuple[str, ...]) -> None:
    explored = explore(Stage(shop), scenario(), Bounds(deadlines=False))
    assert explored.violation is None
    assert explored.complete
    assert explored.reliable == reliable
    assert explored.moments > 10_000


@pytest.mark.extended  # minutes
@SMALL
def test_a_callback_at_every_moment_and_every_deadline(scenario: type[ShopScenario], reliable: tuple[str, ...]) -> None:
    explored = explore(Stage(shop), scenario())
    assert explored.violation is None
    assert explored.complete
    assert explored.reliable == reliable
    assert explored.moments > 40_000


@pytest.mark.extended
def test_an_answer_after_the_order_is_forgotten_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the shop had it: the callback ends the order, and days later the call that it was about is answered."""
    at_any_time = "case BookingAccepted() if shipment.stage is Stage.ASKED:", "case BookingAccepted():"
    written("services/dispatch/decider.py", at_any_time)(monkeypatch)
    violation = explore(Stage(shop), SmallCarrierScenario()).violation
    assert violation is not None
    assert violation.invariant.name == "shipments_are_forgotten"
