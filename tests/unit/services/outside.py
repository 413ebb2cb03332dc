"""A gateway and a carrier that answer, refuse or fail at random, and remember what they did."""

import random
from dataclasses import dataclass, field

from eventlib.errors import OutcomeUnknown
from services.dispatch.ports import Booked, Recalled, Undeliverable
from services.payment.ports import Charged, Declined, Refunded, Voided


@dataclass
class FickleGateway:
    """Holds money per charge; a charge may fail before or after it was made."""

    random: random.Random
    taken: dict[str, tuple[str, int]] = field(default_factory=dict)
    returned: dict[str, int] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)
    calls: list[str] = field(default_factory=list)

    async def charge(self, key: str, order_id: str, amount_cents: int, currency: str) -> Charged | Declined:
        assert currency == "GBP"
        if self.random.random() < 0.3:
            raise OutcomeUnknown("never arrived")
        if key in self.closed:
            return Declined("declined")
        if key not in self.taken and self.random.random() < 0.2:
            self.closed.add(key)
            return Declined("declined")
        self.taken[key] = (order_id, amount_cents)
        if self.random.random() < 0.3:
            raise OutcomeUnknown("answer lost")
        return Charged()

    async def void(self, key: str) -> Voided:
        if self.random.random() < 0.3:
            raise OutcomeUnknown("void")
        self.closed.add(key)
        _, held = self.taken.get(key, ("", 0))
        self.returned.setdefault(key, held)
        return Voided(self.returned[key])

    async def refund(self, key: str, charge_key: str, amount_cents: int, currency: str) -> Refunded:
        assert currency == "GBP"
        assert charge_key not in self.returned or key in self.calls, "returned twice"
        assert self.taken[charge_key][1] == amount_cents
        self.returned[charge_key] = amount_cents
        self.calls.append(key)
        if self.random.random() < 0.3:
            raise OutcomeUnknown("refund")
        return Refunded()

    def kept(self, order_id: str) -> int:
        """Return the money that the gateway holds for an order."""
        charges = {key: cents for key, (order, cents) in self.taken.items() if order == order_id}
        return sum(cents - self.returned.get(key, 0) for key, cents in charges.items())


@dataclass
class FickleCarrier:
    """Fetches parcels; a booking may fail before or after it was made, and a recall may come too late."""

    random: random.Random
    parcels: dict[str, str] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)

    async def book(self, key: str, order_id: str, country: str) -> Booked | Undeliverable:
        assert country == "France"
        if self.random.random() < 0.3:
            raise OutcomeUnknown("never arrived")
        if key in self.refused:
            return Undeliverable("undeliverable")
        if key not in self.parcels and self.random.random() < 0.2:
            self.refused.add(key)
            return Undeliverable("undeliverable")
        self.parcels[key] = order_id
        if self.random.random() < 0.3:
            raise OutcomeUnknown("answer lost")
        return Booked("P-1")

    async def recall(self, key: str) -> Booked | Recalled:
        if self.random.random() < 0.3:
            raise OutcomeUnknown("recall")
        if key in self.parcels and self.random.random() < 0.5:
            return Booked("P-1")
        self.refused.add(key)
        self.parcels.pop(key, None)
        return Recalled()
