"""What becomes of parcels after the shop's orders have ended: reports that come early, twice or never credit an order once; planted bugs do not."""

from random import Random

import pytest

from eventlib.simulation.scenario import drawn_from
from eventlib.simulation.schedule import InvariantViolated
from eventlib.simulation.search import Case
from eventlib.simulation.stage import Stage
from examples.parcels import ParcelScenario, app
from tests.saga.planted import written


def play(schedules: int) -> None:
    """Play schedules. Raises: InvariantViolated."""
    case = Case(Stage(app), ParcelScenario)
    for seed in range(schedules):
        case.schedule(2, drawn_from(Random(seed))).play()


def test_reports_that_come_early_twice_or_never_break_nothing() -> None:
    play(20)


CREDITED = "replace(parcel, is_credited=True)"
DELIVERED = 'replace(parcel, report=parcel.report or "delivered")'
COST = "replace(parcel, amount_cents=cents, currency=currency)"
BUGS = {
    "it credits again": [(CREDITED, "parcel")],
    "it waits again after its credit": [
        (CREDITED, 'replace(parcel, report="")'),
        (DELIVERED, 'replace(parcel, is_credited=False, report="")'),
    ],
    "it takes another amount": [(COST, COST.replace("cents,", "cents + 1,"))],
}


@pytest.mark.heavy
@pytest.mark.parametrize("changes", BUGS.values(), ids=BUGS)
def test_a_planted_bug_is_found(changes: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    written("examples/parcels.py", *changes)(monkeypatch)
    with pytest.raises(InvariantViolated) as violated:
        play(60)
    assert violated.value.violation.invariant.name == "nobody_is_credited_more_than_the_order_has_cost"
