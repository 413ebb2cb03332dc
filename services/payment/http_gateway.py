"""The payment gateway over HTTP."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field, TypeAdapter

from services.http_calls import Calls
from services.payment.ports import Accepted, Charged, Declined, Refunded, Voided


class Taken(BaseModel):
    """The money was taken."""

    outcome: Literal["taken"]


class Pending(BaseModel):
    """The customer has to confirm it (202); a callback reports what came of it."""

    outcome: Literal["accepted"]


class Refused(BaseModel):
    """The money was not taken, and will not be under this key."""

    outcome: Literal["declined"]
    reason: str = Field(min_length=1, max_length=500)


class Undone(BaseModel):
    """The charge is undone for good; so much of it was returned (minor units)."""

    outcome: Literal["voided"]
    returned_cents: int = Field(ge=0)


class Returned(BaseModel):
    """The money was returned."""

    outcome: Literal["refunded"]


_CHARGE: TypeAdapter[Taken | Pending | Refused] = TypeAdapter(
    Annotated[Taken | Pending | Refused, Field(discriminator="outcome")]
)
_VOID = TypeAdapter(Undone)
_REFUND = TypeAdapter(Returned)


class HttpGateway:
    """A gateway at an address.

    Guarantee: never retries. Raises: OutcomeUnknown; TerminalError where a retry cannot help.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def charge(self, key: str, order_id: str, amount_cents: int, currency: str) -> Charged | Accepted | Declined:
        """Take money, accept to take it later, or refuse."""
        body = {"order_id": order_id, "amount_cents": amount_cents, "currency": currency}
        answer = await self._calls.post("charges", key, body, _CHARGE)
        match answer:
            case Taken():
                return Charged()
            case Pending():
                return Accepted()
            case Refused(reason=reason):
                return Declined(reason)

    async def void(self, key: str) -> Voided:
        """Undo the charge with this key, whether it was made or not; a charge that comes later is declined."""
        answer = await self._calls.post("voids", key, {"charge_key": key}, _VOID)
        return Voided(answer.returned_cents)

    async def refund(self, key: str, charge_key: str, amount_cents: int, currency: str) -> Refunded:
        """Return money of a charge that was made."""
        body = {"charge_key": charge_key, "amount_cents": amount_cents, "currency": currency}
        await self._calls.post("refunds", key, body, _REFUND)
        return Refunded()
