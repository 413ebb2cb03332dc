"""The port of a carrier."""

from dataclasses import dataclass
from typing import Protocol

from services.fields import Reason, Tracking


@dataclass(frozen=True, slots=True)
class Booked:
    """The carrier has the parcel, under its own reference."""

    tracking: Tracking


@dataclass(frozen=True, slots=True)
class Planned:
    """The carrier will come for the parcel; a signed callback reports what came of it."""


@dataclass(frozen=True, slots=True)
class Undeliverable:
    """The carrier will not bring the parcel; `reason` is a short code."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Recalled:
    """The carrier does not have the parcel, and will refuse its key from now on."""


class Carrier(Protocol):
    """A carrier that supports idempotency keys.

    Guarantee: a call repeated under its key takes effect once and gets the same answer. A refusal is an answer.
    Raises: OutcomeUnknown when it did not answer, and may or may not have acted: retry under the same key.
    """

    async def book(self, key: str, order_id: str, country: str) -> Booked | Planned | Undeliverable:
        """Fetch a parcel, agree to fetch it later, or refuse."""

    async def recall(self, key: str) -> Booked | Recalled:
        """Cancel the booking with this key, whether it was made or not; Booked when the parcel is on its way."""
