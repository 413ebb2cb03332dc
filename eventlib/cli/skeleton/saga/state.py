"""Thing's state of each order."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Stage(StrEnum):
    """The last step that was taken."""

    NEW = "new"
    CHARGING = "charging"
    CHARGED = "charged"
    DECLINED = "declined"
    REFUNDING = "refunding"
    REFUNDED = "refunded"
    COMPLETED = "completed"


@dataclass(frozen=True)
class Order:
    """One order; `charge_key` is the bank's key of the charge, and times are UTC."""

    stage: Stage = Stage.NEW
    is_confirmed: bool = False
    charge_key: str = ""
    charged_at: datetime | None = None
