"""Every order of things in a small case of the shop keeps its invariants, also with answers that come later; a rare bug is found."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from eventlib.errors import WiringError
from eventlib.model.event import Event
from eventlib.model.handler import Handler
from eventlib.simulation.exhaustive import Bounds, explore
from eventlib.simulation.scenario import SmallCase
from eventlib.simulation.stage import Stage
from services import shop
from services.order.decider import orders
from services.payment.decider import payments
from services.payment.events import ChargeUncertain
from services.simulation.later import SmallCarrierScenario, SmallGatewayScenario
from services.simulation.scenario import ShopScenario
from tests.saga.planted import written

ROOT = Path(__file__).parents[2]


class OutOfStock(ShopScenario):
    def small_case(self) -> SmallCase:
        return super().small_case()._replace(before=())


class NotCancelled(ShopScenario):
    def small_case(self) -> SmallCase:
        case = super().small_case()
        return case._replace(requests=case.requests[:1])


class OverdueWithoutStock(OutOfStock):
    """Nobody cancels it but its deadline."""

    def small_case(self) -> SmallCase:
        case = super().small_case()
        return case._replace(requests=case.requests[:1])


WITHOUT_DEADLINES = Bounds(deadlines=False)


def test_an_order_that_is_cancelled_while_it_is_out_of_stock() -> None:
    explored = explore(Stage(shop), OutOfStock(), WITHOUT_DEADLINES)
    assert explored.violation is None
    assert (explored.moments, explored.steps, explored.ends) == (475, 1_204, 7)


def test_an_order_that_is_overdue_at_every_moment() -> None:
    explored = explore(Stage(shop), OverdueWithoutStock())
    assert explored.violation is None
    without = explore(Stage(shop), OverdueWithoutStock(), WITHOUT_DEADLINES)
    assert explored.moments > 2 * without.moments
    assert explored.ends > without.ends


def test_a_deadline_that_breaks_an_invariant_is_found_with_the_fewest_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    def tells_nobody(*_: object) -> list[Event]:
        raise KeyError("overdue")

    deadline = orders.deadlines["overdue_at"]
    assert deadline.handler is not None
    monkeypatch.setattr(deadline, "handler", Handler(tells_nobody, deadline.handler.emits, wants_meta=True))
    explored = explore(Stage(shop), OverdueWithoutStock())
    assert explored.violation is not None
    assert explored.violation.invariant.name == "no_task_fails"
    *_, last = explored.story
    assert last == "overdue_at of order O1 passes"
    assert len(explored.story) <= 3
    assert explore(Stage(shop), OverdueWithoutStock(), WITHOUT_DEADLINES).violation is None


def test_an_exploration_that_is_cut_short_says_so() -> None:
    cut = explore(Stage(shop), OutOfStock(), Bounds(moments=100))
    assert not cut.complete
    assert cut.violation is None
    assert explore(Stage(shop), OutOfStock()).complete


@pytest.mark.heavy
@pytest.mark.parametrize("seed", [10, pytest.param(25, marks=pytest.mark.extended)])
def test_the_seed_of_hashes_changes_nothing(seed: int) -> None:
    case = "from tests.saga.test_exhaustive import *; print(explore(Stage(shop), OutOfStock()).moments)"
    command = [sys.executable, "-c", case]
    environment = os.environ | {"PYTHONHASHSEED": str(seed)}
    assert subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, check=True).stdout == b"2494\n"


@pytest.mark.heavy
def test_an_order_whose_charge_and_booking_go_every_way() -> None:
    explored = explore(Stage(shop), NotCancelled(), WITHOUT_DEADLINES)
    assert explored.violation is None
    assert explored.ends == 8
    assert explored.moments > 8_000


@pytest.mark.slow
def test_an_order_that_is_cancelled_at_every_moment() -> None:
    explored = explore(Stage(shop), ShopScenario(), WITHOUT_DEADLINES)
    assert explored.violation is None
    assert explored.ends == 66
    assert explored.moments > 150_000


@pytest.mark.heavy
def test_a_forgotten_void_is_found_with_the_steps_that_lead_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    handler = payments.handlers[ChargeUncertain]
    forgetful = Handler(lambda *_: [], handler.emits, handler.wants_meta)
    handlers: dict[type[Event], Handler] = {**payments.handlers, ChargeUncertain: forgetful}
    monkeypatch.setattr(payments, "handlers", handlers)
    explored = explore(Stage(shop), NotCancelled(), WITHOUT_DEADLINES)
    assert explored.violation is not None
    assert explored.violation.invariant.name in {"orders_come_to_an_end", "the_gateway_agrees"}
    assert "ChargeRequested is given up" in explored.story


def test_a_scenario_without_a_small_case_is_told_so() -> None:
    class Empty(ShopScenario):
        def small_case(self) -> SmallCase:
            return SmallCase()

    with pytest.raises(WiringError, match="Empty has no small case"):
        explore(Stage(shop), Empty())


SMALL = pytest.mark.parametrize(
    ("scenario", "reliable"),
    [
        pytest.param(SmallGatewayScenario, ("carrier",), marks=pytest.mark.extended),
        (SmallCarrierScenario, ("gateway",)),
    ],
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
