"""Whatever comes first: the invariants of the shop hold in every interleaving of its services and the outside world."""

from collections import Counter
from datetime import UTC, datetime

import pytest

from services.order.events import CancelSubmitted, OrderCancelled, OrderLine, OrderSubmitted
from services.stock.events import DeliveryLine, DeliverySubmitted
from tests.unit.services import invariants
from tests.unit.services.world import World

SEEDS = 1_000
SKUS = ("A", "B", "C")


def world(seed: int) -> World:
    """One to three orders that compete for units; some of them are cancelled, once or twice, perhaps too early."""
    made = World(seed)
    draw = made.random
    stock = tuple(DeliveryLine(sku=sku, quantity=draw.randint(5, 40)) for sku in SKUS)
    orders = [submitted(made, f"O{number}") for number in range(draw.randint(1, 3))]
    cancels = [CancelSubmitted(order_id=o.order_id) for o in orders for _ in range(draw.choice((0, 0, 0, 1, 2)))]
    again = [order for order in orders if draw.random() < 0.1]
    requests = [*orders, *cancels, *again]
    draw.shuffle(requests)
    requests.insert(draw.choice((0, 0, 0, len(requests))), DeliverySubmitted(delivery_id="D", lines=stock))
    made.requests += requests
    return made


def submitted(made: World, order_id: str) -> OrderSubmitted:
    draw = made.random
    lines = tuple(
        OrderLine(line_no=number, sku=draw.choice(SKUS), quantity=draw.randint(1, 5), unit_price_cents=50 * number)
        for number in range(1, draw.randint(1, 5) + 1)
    )
    return OrderSubmitted(
        order_id=order_id,
        customer_id=None,
        country="France",
        currency="GBP",
        lines=lines,
        placed_at=datetime(2010, 12, 1, tzinfo=UTC),
    )


def obey(seed: int) -> World:
    now = world(seed)
    try:
        now.run(invariants.hold_now)
        invariants.hold_at_rest(now)
    except AssertionError as error:
        story = "\n".join(f"  {event!r}" for event, _ in now.said)
        raise AssertionError(f"seed {seed}: {error}\n{story}") from error
    return now


@pytest.mark.heavy
def test_the_laws_hold_in_every_interleaving_and_every_ending_was_seen() -> None:
    reasons = Counter[str]()
    for seed in range(SEEDS):
        now = obey(seed)
        reasons.update(
            event.reason if isinstance(event, OrderCancelled) else "completed"
            for event, _ in now.said
            if type(event).__name__ in {"OrderCompleted", "OrderCancelled"}
        )
    endings = "completed customer overdue out_of_stock declined payment_uncertain undeliverable carrier_silent"
    assert set(reasons) == set(endings.split())
    assert min(reasons.values()) >= 10, reasons


@pytest.mark.slow
def test_the_laws_hold_in_many_more_interleavings() -> None:
    for seed in range(SEEDS, 100 * SEEDS):
        obey(seed)
