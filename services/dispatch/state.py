"""The state of an order's shipment."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Stage(StrEnum):
    """How far an order's shipment has come."""

    NEW = "new"
    ASKED = "asked"
    RECALLING = "recalling"
    DISPATCHED = "dispatched"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class Shipment:
    """One order's shipment; `cancel_waits` says that a wish to cancel, for `cancel_reason`, waits for the carrier's answer.

    `booking_key` is the key under which the carrier was asked. A booking that ends by a callback has a time when it was
    accepted, and the `tracking` that the callback says.
    """

    stage: Stage = Stage.NEW
    booking_key: str = ""
    cancel_waits: bool = False
    ended_at: datetime | None = None
    accepted_at: datetime | None = None
    tracking: str = ""
    cancel_reason: str = ""
