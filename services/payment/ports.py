"""The port of a payment gateway."""

from dataclasses import dataclass
from typing import Annotated, Protocol

from pydantic import Field

from services.fields import Reason


@dataclass(frozen=True, slots=True)
class Charged:
    """The money was taken."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The customer has to confirm the charge; a signed callback reports what came of it."""


@dataclass(frozen=True, slots=True)
class Declined:
    """Nothing was taken, and nothing will be under this key; `reason` is a short code."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Voided:
    """The charge is undone for good; what had been taken of it was returned (minor units, 0 if nothing)."""

    returned_cents: Annotated[int, Field(ge=0)]


@dataclass(frozen=True, slots=True)
class Refunded:
    """The money was returned."""


class Gateway(Protocol):
    """A payment gateway that supports idempotency keys.

    Guarantee: a call repeated under its key takes effect once and gets the same answer. A refusal is an answer.
    Raises: OutcomeUnknown when it did not answer, and may or may not have acted: retry under the same key.
    """

    async def charge(self, key: str, order_id: str, amount_cents: int, currency: str) -> Charged | Accepted | Declined:
        """Take money, accept to take it later, or refuse."""

    async def void(self, key: str) -> Voided:
        """Undo the charge with this key, whether it was made or not; a charge that comes later is declined."""

    async def refund(self, key: str, charge_key: str, amount_cents: int, currency: str) -> Refunded:
        """Return money of a charge that was made."""
