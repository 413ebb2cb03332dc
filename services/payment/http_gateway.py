"""The payment gateway over HTTP."""

from collections.abc import Mapping

from services.http_calls import Calls
from services.payment.ports import Accepted, Charged, Declined, Refunded, Voided

CHARGE: Mapping[str, type[Charged | Accepted | Declined]] = {
    "taken": Charged,
    "accepted": Accepted,
    "declined": Declined,
}
VOID, REFUND = {"voided": Voided}, {"refunded": Refunded}
"""The gateway's answers by `outcome`; an answer has the fields of its class beside that."""


class HttpGateway:
    """A gateway at an address.

    Guarantee: never retries. Raises: OutcomeUnknown; TerminalError where a retry cannot help.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def charge(self, key: str, order_id: str, amount_cents: int, currency: str) -> Charged | Accepted | Declined:
        """Take money, accept to take it later, or refuse."""
        body = {"order_id": order_id, "amount_cents": amount_cents, "currency": currency}
        return await self._calls.post("charges", key, body, CHARGE)

    async def void(self, key: str) -> Voided:
        """Undo the charge with this key, whether it was made or not; a charge that comes later is declined."""
        return await self._calls.post("voids", key, {"charge_key": key}, VOID)

    async def refund(self, key: str, charge_key: str, amount_cents: int, currency: str) -> Refunded:
        """Return money of a charge that was made."""
        body = {"charge_key": charge_key, "amount_cents": amount_cents, "currency": currency}
        return await self._calls.post("refunds", key, body, REFUND)
