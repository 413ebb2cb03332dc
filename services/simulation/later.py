"""The shop's scenario with a gateway and a carrier that often answer later: they accept, and report what came of it."""

from collections.abc import Mapping

from eventlib import Event
from eventlib.simulation import Choices, SmallCase
from services.dispatch.events import ParcelCollected, ParcelRefused
from services.dispatch.ports import Booked, Planned, Recalled, Undeliverable
from services.payment.events import ChargeConfirmed, ChargeDeclined
from services.payment.ports import Accepted, Charged, Declined
from services.simulation.scenario import HonestCarrier, HonestGateway, ShopScenario


class LaterGateway(HonestGateway):
    """An honest gateway, some of whose charges the customer has to confirm; `reports` are its callbacks, by their ids."""

    def __init__(self, choose: Choices, percent: int = 60) -> None:
        super().__init__(choose)
        self._percent = percent
        self.reports: dict[str, Event] = {}

    async def charge(self, key: str, order_id: str, amount_cents: int, currency: str) -> Charged | Accepted | Declined:
        """Charge an amount, accept to, or decline; a call that is repeated gets the same answer."""
        if key in self.reports and key not in self.voided:
            return Accepted()
        is_new = not {key} & (self.charges.keys() | self.declined | self.voided.keys())
        answer = await super().charge(key, order_id, amount_cents, currency)
        if not is_new or not self._choose.whether("the customer has to confirm", self._percent):
            return answer
        match answer:
            case Declined(reason=reason):
                self.reports[key] = ChargeDeclined(order_id=order_id, charge_key=key, reason=reason)
            case _:
                self.reports[key] = ChargeConfirmed(order_id=order_id, charge_key=key)
        return Accepted()


class LaterCarrier(HonestCarrier):
    """An honest carrier that comes later for some parcels, or never; `reports` are its callbacks, by their ids."""

    def __init__(self, choose: Choices, percent: int = 60) -> None:
        super().__init__(choose)
        self._percent = percent
        self.planned: set[str] = set()
        self.reports: dict[str, Event] = {}

    async def book(self, key: str, order_id: str, country: str) -> Booked | Planned | Undeliverable:
        """Fetch a parcel, agree to fetch it later, or refuse."""
        if key in self.planned:
            return Planned()
        is_new = not {key} & (self.booked.keys() | self.refused.keys())
        answer = await super().book(key, order_id, country)
        if not is_new or not self._choose.whether("the carrier comes later", self._percent):
            return answer
        self.planned.add(key)
        match answer:
            case Undeliverable(reason=reason):
                self.reports[key] = ParcelRefused(order_id=order_id, booking_key=key, reason=reason)
            case Booked(tracking=tracking) if self._choose.whether("the carrier fetches it", 75):
                self.reports[key] = ParcelCollected(order_id=order_id, booking_key=key, tracking=tracking)
        return Planned()

    async def recall(self, key: str) -> Booked | Recalled:
        """Cancel the booking with this key, unless the parcel has left, as one that was fetched has."""
        if isinstance(self.reports.get(key), ParcelCollected):
            self.left.add(key)
        answer = await super().recall(key)
        if isinstance(answer, Recalled):
            self.planned.discard(key)
        return answer


class LaterScenario(ShopScenario):
    """The shop's orders, with a gateway and a carrier that answer later."""

    def ports(self, choose: Choices) -> Mapping[str, object]:
        """Return the gateway and the carrier."""
        return {"gateway": LaterGateway(choose), "carrier": LaterCarrier(choose)}

    def callbacks(self, ports: Mapping[str, object]) -> Mapping[str, Event]:
        """Return what the gateway and the carrier report."""
        later = [port for port in ports.values() if isinstance(port, LaterGateway | LaterCarrier)]
        return {name: report for port in later for name, report in port.reports.items()}


class SmallGatewayScenario(LaterScenario):
    """For the exhaustive search: the gateway answers every charge later, and the carrier at once; no call of it is lost."""

    small_lines = 1

    def ports(self, choose: Choices) -> Mapping[str, object]:
        """Return the gateway and the carrier."""
        return {"gateway": LaterGateway(choose, percent=100), "carrier": HonestCarrier(choose)}

    def small_case(self) -> SmallCase:
        """Return the cancellation of an order whose charge is requested."""
        return _begun(super().small_case(), reliable="carrier")


class SmallCarrierScenario(LaterScenario):
    """For the exhaustive search: the carrier comes later for every parcel, and the gateway answers at once; no call of it is lost."""

    small_lines = 1

    def ports(self, choose: Choices) -> Mapping[str, object]:
        """Return the gateway and the carrier."""
        return {"gateway": HonestGateway(choose), "carrier": LaterCarrier(choose, percent=100)}

    def small_case(self) -> SmallCase:
        """Return the cancellation of an order whose parcel is to be fetched."""
        return _begun(super().small_case(), reliable="gateway")


def _begun(case: SmallCase, reliable: str) -> SmallCase:
    order, cancellation = case.requests
    return SmallCase([*case.before, order], [cancellation], (reliable,))
