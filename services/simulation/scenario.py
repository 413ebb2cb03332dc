"""The shop's simulation scenario: orders that compete for units, and a reliable gateway and carrier."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from eventlib import Event
from eventlib.invariants import ExternalStates
from eventlib.simulation import Choices, Scenario, SmallCase
from services.dispatch.ports import Booked, Planned, Recalled, Undeliverable
from services.invariants.outside import Account, Parcels, accounts, parcels
from services.order.events import CancelSubmitted, OrderLine, OrderSubmitted
from services.payment.ports import Accepted, Charged, Declined, Refunded, Voided
from services.stock.events import DeliveryLine, DeliverySubmitted


class HonestGateway:
    """A gateway that always answers: it acts once under each key, and declines some cards."""

    def __init__(self, choose: Choices) -> None:
        self._choose = choose
        self.charges: dict[str, tuple[str, int]] = {}
        self.declined: set[str] = set()
        self.voided: dict[str, int] = {}
        self.refunds: dict[str, tuple[str, int]] = {}

    async def charge(self, key: str, order_id: str, amount_cents: int, currency: str) -> Charged | Accepted | Declined:
        """Charge an amount, or decline."""
        del currency
        if key in self.voided or key in self.declined:
            return Declined("declined")
        if key in self.charges:
            return Charged()
        if self._choose.whether("the card is declined", 15):
            self.declined.add(key)
            return Declined("declined")
        self.charges[key] = (order_id, amount_cents)
        return Charged()

    async def void(self, key: str) -> Voided:
        """Undo a charge permanently."""
        if key not in self.voided:
            self.voided[key] = self.held(key)
        return Voided(self.voided[key])

    async def refund(self, key: str, charge_key: str, amount_cents: int, currency: str) -> Refunded:
        """Refund part or all of a charge."""
        del currency
        if key not in self.refunds:
            if amount_cents > self.held(charge_key):
                raise ValueError(f"refund {key} wants {amount_cents} of a charge that holds {self.held(charge_key)}")
            self.refunds[key] = (charge_key, amount_cents)
        return Refunded()

    def held(self, charge_key: str) -> int:
        """Return the balance of a charge (minor units)."""
        _, taken = self.charges.get(charge_key, ("", 0))
        refunded = sum(cents for charge, cents in self.refunds.values() if charge == charge_key)
        return taken - self.voided.get(charge_key, 0) - refunded

    def account(self, order_id: str) -> Account:
        """Return an order's account."""
        charges = {key: cents for key, (order, cents) in self.charges.items() if order == order_id}
        taken = sum(charges.values())
        return Account(len(charges), taken, taken - sum(map(self.held, charges)))


class HonestCarrier:
    """A carrier that always answers: it fetches each parcel once, and refuses some destinations."""

    def __init__(self, choose: Choices) -> None:
        self._choose = choose
        self.booked: dict[str, str] = {}
        self.left: set[str] = set()
        self.refused: dict[str, str] = {}

    async def book(self, key: str, order_id: str, country: str) -> Booked | Planned | Undeliverable:
        """Fetch a parcel, or refuse."""
        del country
        if key in self.refused:
            return Undeliverable(self.refused[key])
        if key not in self.booked and self._choose.whether("nobody delivers there", 15):
            self.refused[key] = "undeliverable"
            return Undeliverable("undeliverable")
        self.booked[key] = order_id
        return Booked(f"P-{key[:8]}")

    async def recall(self, key: str) -> Booked | Recalled:
        """Cancel a booking, unless the parcel has left."""
        if key in self.left or (key in self.booked and self._choose.whether("the parcel has left", 50)):
            self.left.add(key)
            return Booked(f"P-{key[:8]}")
        self.refused[key] = "recalled"
        self.booked.pop(key, None)
        return Recalled()


class ShopScenario(Scenario):
    """Orders of one to three lines for three products; some are cancelled, some before they are placed."""

    small_lines = 2

    def beginning(self, orders: int, choose: Choices) -> Sequence[Event]:
        """Return a delivery, which may be too small."""
        enough = _MOST_UNITS * _MOST_LINES
        units = choose.one_of("units for each order", (enough, enough, enough, enough // 2, enough // 4))
        return [_delivery("D1", _SKUS, units * orders)]

    def requests(self, orders: int, choose: Choices) -> Sequence[Event]:
        """Return orders, cancellation requests, and perhaps another delivery."""
        asked: list[Event] = []
        for number in range(1, orders + 1):
            order = _order(f"O{number}", choose)
            asked.append(order)
            asked += [CancelSubmitted(order_id=order.order_id)] * choose.one_of("wishes to cancel", (0, 0, 1, 2))
        return [*asked, _delivery("D2", _SKUS, _MOST_UNITS)] if choose.whether("another delivery", 25) else asked

    def ports(self, choose: Choices) -> Mapping[str, object]:
        """Return the gateway and the carrier."""
        return {"gateway": HonestGateway(choose), "carrier": HonestCarrier(choose)}

    def small_case(self) -> SmallCase:
        """Return an order of `small_lines` lines and its cancellation, with enough units for them."""
        skus = _SKUS[: self.small_lines]
        lines = tuple(
            OrderLine(line_no=n, sku=sku, quantity=1, unit_price_cents=100) for n, sku in enumerate(skus, start=1)
        )
        return SmallCase([_delivery("D1", skus, 1)], [_submitted("O1", lines), CancelSubmitted(order_id="O1")])

    def facts(self, ports: Mapping[str, object]) -> ExternalStates:
        """Return the gateway's and the carrier's accounts."""
        gateway, carrier = ports["gateway"], ports["carrier"]
        assert isinstance(gateway, HonestGateway)  # noqa: S101  see `ports`
        assert isinstance(carrier, HonestCarrier)  # noqa: S101  see `ports`
        paid = {order_id: gateway.account(order_id) for order_id, _ in gateway.charges.values()}
        booked = [*carrier.booked.values()]
        return {accounts: paid, parcels: {order_id: Parcels(booked.count(order_id)) for order_id in booked}}


def _delivery(delivery_id: str, skus: Sequence[str], units: int) -> DeliverySubmitted:
    lines = tuple(DeliveryLine(sku=sku, quantity=units) for sku in skus)
    return DeliverySubmitted(delivery_id=delivery_id, lines=lines)


def _order(order_id: str, choose: Choices) -> OrderSubmitted:
    lines = tuple(
        OrderLine(
            line_no=number,
            sku=choose.one_of("product", _SKUS),
            quantity=choose.between("units", 1, _MOST_UNITS),
            unit_price_cents=choose.one_of("price", (100, 1, 0)) + number,
        )
        for number in range(1, 1 + choose.between("lines", 1, _MOST_LINES))
    )
    return _submitted(order_id, lines)


def _submitted(order_id: str, lines: tuple[OrderLine, ...]) -> OrderSubmitted:
    return OrderSubmitted(
        order_id=order_id, customer_id=None, country="France", currency="GBP", lines=lines, placed_at=_PLACED_AT
    )


_SKUS = ("A", "B", "C")
_MOST_LINES = 3
_MOST_UNITS = 4
_PLACED_AT = datetime(2025, 12, 31, tzinfo=UTC)
