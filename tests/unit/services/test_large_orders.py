"""An order of very many lines costs in proportion to its lines."""

import time

from eventlib.model.event import Event, Meta
from eventlib.testing import given
from services.order.events import OrderLine
from services.stock.events import LineReleaseRequested, LineReserved, LineShipped
from services.stock.reservation import reservations
from tests.unit.services.telling import DECLINED, DISPATCHED, PLACED

META = Meta(id="0", subject="1")


def large_order(line_count: int) -> list[Event]:
    numbers = range(1, line_count + 1)
    lines = tuple(OrderLine(line_no=n, sku=f"S{n}", quantity=2, unit_price_cents=100) for n in numbers)
    answers = [LineReserved(order_id="1", line_no=n, sku=f"S{n}", quantity=2) for n in numbers]
    return [PLACED.model_copy(update={"lines": lines}), *answers]


def seconds_for(line_count: int) -> float:
    events = large_order(line_count)
    started = time.process_time()
    state = reservations.initial
    for event in [*events, DISPATCHED]:
        after, _ = reservations.decide(state, event, META, lambda _said, _ordinal: META)
        state = after or reservations.initial
    return time.process_time() - started


def test_four_times_the_lines_cost_far_less_than_sixteen_times_as_much() -> None:
    small, large = (min(seconds_for(count) for _ in range(5)) for count in (1_114, 4 * 1_114))
    assert large / small < 11, f"{small:.4f} s for 1,114 lines, {large:.4f} s for four times as many"


def test_every_line_of_a_large_order_is_shipped() -> None:
    shipped = given(reservations, *large_order(1_114)).when(DISPATCHED).emitted
    assert sum(isinstance(event, LineShipped) for event in shipped) == 1_114


def test_every_line_of_a_large_order_is_released_at_once_and_the_state_is_small_again() -> None:
    off = given(reservations, *large_order(1_114)).when(DECLINED)
    assert sum(isinstance(event, LineReleaseRequested) for event in off.emitted) == 1_114
    off.then_state(held=(), releasing=1_114)
