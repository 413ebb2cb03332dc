"""Answers that come later: in whatever order callbacks come, twice, late or never, the example's invariants hold; planted bugs do not."""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from eventlib import Event, Meta
from eventlib.analysis.checks import check
from eventlib.model.handler import Handler
from eventlib.simulation.exhaustive import explore
from eventlib.simulation.scenario import drawn_from
from eventlib.simulation.schedule import InvariantViolated
from eventlib.simulation.search import Case
from eventlib.simulation.stage import Stage
from eventlib.testing import given
from examples.transfers import app
from examples.transfers.purchases import (
    CancelSubmitted,
    Purchase,
    PurchaseCancelled,
    PurchasePaid,
    PurchaseSubmitted,
    TransferAccepted,
    TransferConfirmed,
    TransferDeclined,
    TransferRequested,
    VoidRequested,
    purchases,
)
from examples.transfers.simulated import TransferScenario
from tests.saga.mutant import Plant
from tests.saga.planted import written

P1 = "P1"
ASKED = PurchaseSubmitted(purchase_id=P1, amount_cents=100)
REQUESTED = TransferRequested(purchase_id=P1, amount_cents=100)
ACCEPTED = TransferAccepted(purchase_id=P1)
CONFIRMED = TransferConfirmed(purchase_id=P1)
PAID = PurchasePaid(purchase_id=P1)


def test_a_confirmation_pays_before_and_after_the_answer() -> None:
    asked = given(purchases).when(ASKED).then(REQUESTED)
    asked.when(ACCEPTED).then().when(CONFIRMED).then(PAID)
    asked.when(CONFIRMED).then(PAID).when(ACCEPTED).then()


def test_a_confirmation_that_comes_twice_pays_once() -> None:
    given(purchases).when(ASKED, CONFIRMED).then(REQUESTED, PAID).when(CONFIRMED).then()


def test_what_comes_after_the_deadline_or_a_cancellation_is_left_to_the_void() -> None:
    waiting = given(purchases).when(ASKED).then(REQUESTED)
    for late in (waiting.when_passed("confirmed_by"), waiting.when(CancelSubmitted(purchase_id=P1))):
        late.then(VoidRequested(purchase_id=P1, transfer_key=late.state.transfer_key)).when(CONFIRMED).then()
        late.when(TransferDeclined(purchase_id=P1, reason="no")).then()


def test_the_example_has_no_fault_that_types_show() -> None:
    assert check(app) == []


def test_whatever_order_callbacks_come_in_the_invariants_hold() -> None:
    explored = explore(Stage(app), TransferScenario())
    assert explored.violation is None
    assert explored.complete
    assert explored.moments > 1_000


def test_callbacks_that_come_twice_late_or_never_break_nothing() -> None:
    assert {"a callback comes twice", "a callback comes days late", "a callback never comes"} <= play(100).keys()


PURCHASES = "examples/transfers/purchases.py"
_PAID = "[PurchasePaid(purchase_id=transfer.purchase_id)]"
_IF = f'{_PAID} if purchase.stage == "transferring" else []'
pays_whatever_was_before = written(PURCHASES, (_IF, _PAID))
pays_each_time = written(PURCHASES, (_IF, f'{_PAID} if purchase.stage in {{"transferring", "paid"}} else []'))
waits_for_ever = written(PURCHASES, ('waits = purchase.stage == "transferring"', "waits = False"))
forgets_that_it_is_paid = written(
    PURCHASES,
    (
        "        case VoidRequested():\n",
        '        case TransferAccepted():\n            return replace(purchase, stage="transferring")\n        case VoidRequested():\n',
    ),
)
"""Its author thought that it is accepted before it is confirmed."""


def cancels_without_asking_the_bank(monkeypatch: pytest.MonkeyPatch) -> None:
    def cancel(purchase: Purchase, asked: CancelSubmitted) -> list[Event]:
        return [PurchaseCancelled(purchase_id=asked.purchase_id)] if purchase.stage == "transferring" else []

    handle(monkeypatch, CancelSubmitted, cancel)


def takes_silence_for_no(monkeypatch: pytest.MonkeyPatch) -> None:
    def give_up(_purchase: Purchase, meta: Meta) -> list[Event]:
        return [PurchaseCancelled(purchase_id=meta.subject)]

    deadline = purchases.deadlines["confirmed_by"]
    monkeypatch.setattr(deadline, "handler", Handler(give_up, (PurchaseCancelled,), wants_meta=True))


def handle(monkeypatch: pytest.MonkeyPatch, event: type[Event], handler: Callable[..., Any]) -> None:
    emits = (PurchasePaid, PurchaseCancelled, VoidRequested)
    monkeypatch.setitem(purchases.handlers, event, Handler(handler, emits, wants_meta=False))


@pytest.mark.parametrize(
    ("bug", "broken"),
    [
        (pays_whatever_was_before, "one_end"),
        (forgets_that_it_is_paid, "one_end"),
        (cancels_without_asking_the_bank, "the_bank_agrees"),
        (takes_silence_for_no, "the_bank_agrees"),
    ],
)
def test_a_planted_bug_is_found_by_exploring(bug: Plant, broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    violation = explore(Stage(app), TransferScenario()).violation
    assert violation is not None
    assert violation.invariant.name == broken


@pytest.mark.parametrize(("bug", "broken"), [(pays_each_time, "one_end"), (waits_for_ever, "an_end")])
def test_a_planted_bug_is_found_by_simulated_schedules(
    bug: Plant, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bug(monkeypatch)
    with pytest.raises(InvariantViolated) as violated:
        play(200)
    assert violated.value.violation.invariant.name == broken


def play(schedules: int) -> Counter[str]:
    """Play schedules, and return the faults in them. Raises: InvariantViolated."""
    case, faults = Case(Stage(app), TransferScenario), Counter[str]()
    for seed in range(schedules):
        schedule = case.schedule(1, drawn_from(Random(seed)))
        schedule.play()
        faults += schedule.world.faults
    return faults
