"""The state of an order's payment."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Stage(StrEnum):
    """How far an order's payment has come."""

    NEW = "new"
    CHARGING = "charging"
    TAKEN = "taken"
    FAILED = "failed"
    VOIDING = "voiding"
    VOIDED = "voided"
    REFUNDING = "refunding"
    REFUNDED = "refunded"
    WAIVED = "waived"


@dataclass(frozen=True)
class Payment:
    """One order's payment; `called_off` is why the money must not be kept, and may be known before it is taken.

    A charge that is confirmed by a callback has a time when it was accepted, and the country, which its end repeats.
    """

    stage: Stage = Stage.NEW
    charge_key: str = ""
    amount_cents: int = 0
    currency: str = ""
    called_off: str = ""
    ended_at: datetime | None = None
    accepted_at: datetime | None = None
    is_confirmed: bool = False
    country: str = ""
