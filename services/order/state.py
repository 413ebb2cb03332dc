"""The state of an order: how far its parts have come, and from that, its status."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Stock(StrEnum):
    """The state of an order's stock."""

    OPEN = "open"
    RESERVED = "reserved"
    REJECTED = "rejected"
    RELEASED = "released"
    SHIPPED = "shipped"


class Money(StrEnum):
    """The state of an order's payment."""

    OPEN = "open"
    TAKEN = "taken"
    FAILED = "failed"
    UNCERTAIN = "uncertain"
    VOIDED = "voided"
    REFUNDED = "refunded"
    WAIVED = "waived"


class Parcel(StrEnum):
    """The state of an order's dispatch."""

    OPEN = "open"
    PLANNED = "planned"
    DISPATCHED = "dispatched"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Cancel(StrEnum):
    """The outcome of a wish to cancel."""

    NONE = "none"
    REQUESTED = "requested"
    REFUSED = "refused"


class Status(StrEnum):
    """The status of an order as its customer sees it."""

    PLACED = "placed"
    RESERVED = "reserved"
    PAID = "paid"
    DISPATCHED = "dispatched"
    CANCELLING = "cancelling"
    COMPLETED = "completed"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class Order:
    """One order: `reason` is why it will not be completed, empty as long as it may be; money is in minor units.

    An order that was not submitted yet has no `opened_at`; `cancel_reason` may be there before that.
    """

    customer_id: str | None = None
    country: str = ""
    currency: str = ""
    amount_cents: int = 0
    line_count: int = 0
    placed_at: datetime | None = None
    opened_at: datetime | None = None
    stock: Stock = Stock.OPEN
    money: Money = Money.OPEN
    parcel: Parcel = Parcel.OPEN
    cancel: Cancel = Cancel.NONE
    cancel_reason: str = ""
    reason: str = ""
    taken_cents: int = 0
    refunded_cents: int = 0
    tracking: str = ""
    ended_at: datetime | None = None

    @property
    def status(self) -> Status:
        """The order's status; `cancelling` until every part has closed."""
        if self.ended_at is not None:
            return Status.CANCELLED if self.reason else Status.COMPLETED
        if self.reason:
            return Status.CANCELLING
        if self.parcel is Parcel.DISPATCHED or self.stock is Stock.SHIPPED:
            return Status.DISPATCHED
        if self.money is Money.TAKEN:
            return Status.PAID
        return Status.RESERVED if self.stock is Stock.RESERVED else Status.PLACED

    @property
    def is_fulfilled(self) -> bool:
        """Whether the goods are on their way and the money is ours."""
        return self.stock is Stock.SHIPPED and self.money is Money.TAKEN

    @property
    def is_undone(self) -> bool:
        """Whether no stock is set aside any more and no money is kept; stock that was rejected was never charged.

        While dispatch has not answered a wish to cancel it is not: what it says then must not come after the order's
        end, when others may have forgotten the order.
        """
        if self.cancel is Cancel.REQUESTED and self.parcel is Parcel.OPEN:
            return False
        return self.stock is Stock.REJECTED or (self.stock is Stock.RELEASED and self.money in _WITHOUT_MONEY)


_WITHOUT_MONEY = frozenset({Money.FAILED, Money.VOIDED, Money.REFUNDED, Money.WAIVED})
