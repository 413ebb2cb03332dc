"""Mistakes in what the shop's services decide and remember, as changes of their sources: one kind each, in all four."""

from functools import partial
from typing import NamedTuple


class WrongDecision(NamedTuple):
    """A mistake: the decider that makes it, in which file, what is written there instead, and a schedule that meets it.

    `raises`: it makes an input park. `later`: the schedule's gateway answers later.
    """

    decider: str
    file: str
    before: str
    after: str
    seed: int = 0
    raises: bool = False
    later: bool = False


ORDER, _ORDERS = "services/order/decider.py", "services/order/evolve.py"
PAYMENT, DISPATCH = "services/payment/decider.py", "services/dispatch/decider.py"
STOCK, _SHELF = "services/stock/reservation.py", "services/stock/shelf.py"
_LET_GO = "return _let_go(reservation, failure.order_id)"
_REFUND_LATE = "[_refund(payment, money.order_id)] if payment.called_off and is_held else []"
_UNDO = "return [_refund(payment, failure.order_id)] if payment.stage is Stage.TAKEN else []"
_WAIVED = "return [PaymentWaived(order_id=cancelled.order_id, reason=cancelled.reason)]"
_TOO_LATE = "return [_too_late(order.order_id)] if shipment.cancel_waits else []"
_OPEN = "if order.opened_at is None or order.ended_at is not None or order.reason or"
_REJECTED = "return [StockRejected(order_id=line.order_id, reason=OUT_OF_STOCK)] if reservation.is_back else []"
_REFUNDED = "return replace(order, money=Money.REFUNDED, reason=reason, refunded_cents=cents)"
_BOOKED = "return replace(shipment, stage=Stage.ASKED, booking_key=meta.id)"

order, evolved = partial(WrongDecision, "order", ORDER), partial(WrongDecision, "order", _ORDERS)
payment, shipment = partial(WrongDecision, "payment", PAYMENT), partial(WrongDecision, "shipment", DISPATCH)
reservation, shelf = partial(WrongDecision, "reservation", STOCK), partial(WrongDecision, "shelf", _SHELF)

WRONG: dict[str, WrongDecision] = {
    # a wrong amount
    "units do not count": order("line.quantity * line.unit_price_cents", "line.unit_price_cents"),
    "an order ends with what it has cost": order(
        "refunded_cents=order.refunded_cents", "refunded_cents=order.amount_cents"
    ),
    "a charge of a cent more": payment(
        "amount_cents=stock.amount_cents", "amount_cents=stock.amount_cents + 1", seed=1
    ),
    "one unit is asked of a shelf": reservation(
        "quantity=line.quantity)\n        for line in order.lines",
        "quantity=1)\n        for line in order.lines",
        seed=1,
    ),
    "the last units are refused": shelf("line.quantity <= shelf.on_hand", "line.quantity < shelf.on_hand", seed=6),
    # an event is missing
    "an early wish is not forwarded": order("if not order.cancel_reason:", "if True:"),
    "a wish is not refused": shipment("return [_too_late(request.order_id)]", "return []", seed=15),
    "a wish that waited is not refused": shipment(_TOO_LATE, "return []", seed=106),
    "a payment is not waived": payment(_WAIVED, "return []"),
    "a late wish is not answered": order(
        "return [CancelRefused(order_id=wish.order_id, reason=order.status)]", "return []", seed=1
    ),
    "stock is not shipped": reservation("return [*shipped, StockShipped(order_id=order_id)]", "return shipped", seed=1),
    # an event is doubled, or one too many
    "an order is placed again": order("if order.opened_at is not None:", "if False:", seed=4),
    "a wish is forwarded again": order("or order.cancel is Cancel.REQUESTED or", "or", seed=35),
    "an order completes with its money": order(
        "or not order.is_fulfilled:\n        return []\n    return [OrderC",
        ":\n        return []\n    return [OrderC",
        seed=1,
    ),
    "lines are shipped twice": reservation("[*shipped, StockShipped", "[*shipped, *shipped, StockShipped", seed=1),
    "stock is reserved by its first line": reservation(
        "reservation.answered < reservation.asked", "reservation.answered < 1", seed=1
    ),
    "a charge after the order was called off": payment("if payment.stage is not Stage.NEW:", "if False:", seed=13),
    "a parcel after the order was called off": shipment("if shipment.stage is not Stage.NEW:", "if False:", seed=17),
    "a refusal that nothing waits for": shipment(_TOO_LATE, "return [_too_late(order.order_id)]", seed=1),
    "money counts before it is confirmed": payment(" or not payment.is_confirmed:", ":", later=True, seed=3),
    # a wrong reason, or another field
    "a late wish is refused as dispatched": order(
        "(order_id=wish.order_id, reason=order.status)", '(order_id=wish.order_id, reason="dispatched")', seed=1
    ),
    "an order is cancelled for the wish's reason": order(
        "reason=order.reason,", 'reason=order.cancel_reason or "none",', seed=2
    ),
    "an overdue order has another reason": order("reason=OVERDUE", 'reason="late"', seed=1),
    "a charge that waits is voided as uncertain": payment(
        "_void(payment, meta.subject, PAYMENT_UNCONFIRMED)",
        '_void(payment, meta.subject, "uncertain")',
        later=True,
        seed=15,
    ),
    "an uncertain charge is voided as unconfirmed": payment(
        "_void(payment, charge.order_id, charge.reason)",
        "_void(payment, charge.order_id, PAYMENT_UNCONFIRMED)",
        seed=20,
    ),
    "stock is released as out of stock": reservation(
        "order_id=line.order_id, reason=reservation.called_off", "order_id=line.order_id, reason=OUT_OF_STOCK", seed=1
    ),
    "a parcel goes to the currency": payment("country=stock.country", "country=stock.currency", seed=1),
    # a wrong key
    "money has the order's id as its key": payment(
        "country=payment.country,\n            charge_key=payment.charge_key",
        "country=payment.country,\n            charge_key=order_id",
        later=True,
        seed=3,
    ),
    "a refund of another charge": payment(
        "charge_key=payment.charge_key,\n        amount_cents", "charge_key=order_id,\n        amount_cents", seed=2
    ),
    "a recall of another booking": shipment(
        "booking_key=shipment.booking_key, reason", "booking_key=order_id, reason", seed=9
    ),
    "a charge under the order's id": payment("charge_key=meta.id", "charge_key=meta.subject", seed=1),
    "a booking without a key": shipment(_BOOKED, "return replace(shipment, stage=Stage.ASKED)", seed=1),
    # a state that is wrong
    "a refund is not counted": evolved(_REFUNDED, "return replace(order, money=Money.REFUNDED, reason=reason)", seed=2),
    "tracking is not kept": evolved("parcel=Parcel.DISPATCHED, tracking=tracking", "parcel=Parcel.DISPATCHED", seed=1),
    "a refused wish stays open": evolved("return replace(order, cancel=Cancel.REFUSED)", "return order", seed=1),
    "a refused line is not remembered": reservation(
        "answered=reservation.answered + 1, refused=True", "answered=reservation.answered + 1", seed=10
    ),
    "released units stay reserved": shelf(
        "on_hand=shelf.on_hand + units, reserved=shelf.reserved - units", "on_hand=shelf.on_hand + units", seed=1
    ),
    "shipped units are not counted": shelf(
        "reserved=shelf.reserved - units, shipped=shelf.shipped + units", "reserved=shelf.reserved - units", seed=1
    ),
    "a wish does not wait for the carrier": shipment(
        "cancel_waits=shipment.stage in _UNDECIDED", "cancel_waits=False", seed=106
    ),
    # a deadline is not set, not cancelled, or at another time
    "an order is never overdue": order("else order.opened_at + LONGEST", "else None", seed=1),
    "an ended order becomes overdue": order(_OPEN, "if order.opened_at is None or order.reason or", seed=1),
    "a charge is waited for without end": payment(
        "return None if accepted_at is None else accepted_at + CONFIRM_WITHIN", "return None", later=True, seed=3
    ),
    "a confirmed charge is waited for": payment(
        "payment.accepted_at if payment.stage is Stage.CHARGING else None", "payment.accepted_at", later=True, seed=3
    ),
    "a reservation is never forgotten": reservation(
        "return None if reservation.closed_at is None else reservation.closed_at + KEPT", "return None"
    ),
    "a shipment is forgotten with its order": shipment("shipment.ended_at + KEPT", "shipment.ended_at"),
    # it parks
    "a refund without a reason": payment(
        "if payment.called_off and is_held else []", "if is_held else []", raises=True, seed=1
    ),
    "a refusal raises": reservation(_REJECTED, "raise KeyError(line.sku)", raises=True, seed=10),
    "a release raises": shelf('''"""Put a line's units back."""''', "raise KeyError(line.sku)", raises=True, seed=1),
    "a payment of what was called off raises": shipment(
        "if shipment.stage is not Stage.NEW:\n        return []\n    return [Disp",
        "assert shipment.stage is Stage.NEW\n    return [Disp",
        raises=True,
        seed=17,
    ),
    "a late submission raises": order(
        "if order.opened_at is not None:\n        return []", "assert order.opened_at is None", raises=True, seed=4
    ),
    # a compensation is missing
    "a late charge is kept": payment(f"return {_REFUND_LATE}", "return []", seed=3),
    "a failed parcel's money is kept": payment(_UNDO, "return []", seed=2),
    "a failed order's stock is kept": reservation(_LET_GO, "return []", seed=1),
}
"""By what goes wrong."""
