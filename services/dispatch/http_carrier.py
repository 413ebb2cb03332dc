"""The carrier over HTTP."""

from collections.abc import Mapping

from services.dispatch.ports import Booked, Planned, Recalled, Undeliverable
from services.http_calls import Calls

BOOK: Mapping[str, type[Booked | Planned | Undeliverable]] = {
    "booked": Booked,
    "accepted": Planned,
    "undeliverable": Undeliverable,
}
RECALL: Mapping[str, type[Booked | Recalled]] = {"booked": Booked, "recalled": Recalled}
"""The carrier's answers by `outcome`; an answer has the fields of its class beside that."""


class HttpCarrier:
    """A carrier at an address.

    Guarantee: never retries. Raises: OutcomeUnknown; TerminalError where a retry cannot help.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def book(self, key: str, order_id: str, country: str) -> Booked | Planned | Undeliverable:
        """Fetch a parcel, agree to fetch it later, or refuse."""
        return await self._calls.post("parcels", key, {"order_id": order_id, "country": country}, BOOK)

    async def recall(self, key: str) -> Booked | Recalled:
        """Cancel the booking with this key, whether it was made or not; Booked when the parcel is on its way."""
        return await self._calls.post("recalls", key, {"parcel_key": key}, RECALL)
