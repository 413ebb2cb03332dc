"""The carrier over HTTP."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field, TypeAdapter

from services.dispatch.ports import Booked, Planned, Recalled, Undeliverable
from services.fields import Tracking
from services.http_calls import Calls


class OnItsWay(BaseModel):
    """The carrier has the parcel."""

    outcome: Literal["booked"]
    tracking: Tracking


class ToBeFetched(BaseModel):
    """The carrier will come for it (202); a callback reports what came of it."""

    outcome: Literal["accepted"]


class Refused(BaseModel):
    """The carrier will not bring the parcel."""

    outcome: Literal["undeliverable"]
    reason: str = Field(min_length=1, max_length=500)


class CalledBack(BaseModel):
    """The carrier does not have the parcel, and will refuse its key from now on."""

    outcome: Literal["recalled"]


_BOOK: TypeAdapter[OnItsWay | ToBeFetched | Refused] = TypeAdapter(
    Annotated[OnItsWay | ToBeFetched | Refused, Field(discriminator="outcome")]
)
_RECALL: TypeAdapter[OnItsWay | CalledBack] = TypeAdapter(
    Annotated[OnItsWay | CalledBack, Field(discriminator="outcome")]
)


class HttpCarrier:
    """A carrier at an address.

    Guarantee: never retries. Raises: OutcomeUnknown; TerminalError where a retry cannot help.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def book(self, key: str, order_id: str, country: str) -> Booked | Planned | Undeliverable:
        """Fetch a parcel, agree to fetch it later, or refuse."""
        match await self._calls.post("parcels", key, {"order_id": order_id, "country": country}, _BOOK):
            case OnItsWay(tracking=tracking):
                return Booked(tracking)
            case ToBeFetched():
                return Planned()
            case Refused(reason=reason):
                return Undeliverable(reason)

    async def recall(self, key: str) -> Booked | Recalled:
        """Cancel the booking with this key, whether it was made or not; Booked when the parcel is on its way."""
        answer = await self._calls.post("recalls", key, {"parcel_key": key}, _RECALL)
        return Booked(answer.tracking) if isinstance(answer, OnItsWay) else Recalled()
