"""Why an order of a file is refused."""

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """The reasons, in the order in which they count: an order is refused for the first that applies."""

    MALFORMED = "malformed"
    CREDIT_NOTE = "credit note"
    QUANTITY = "quantity"
    UNIT_PRICE = "unit price"
    NOTHING_TO_PAY = "nothing to pay"
    CONFLICT = "conflict"
    """The log has an order with this id already, and other content."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """One order that is not placed: where it stands in the file (lines count from 1), and what is wrong with it.

    `order_id` is None where not even that could be read.
    """

    file_line: int
    order_id: str | None
    reason: Reason
    detail: str


class Malformed(ValueError):
    """Something that is not an order in the agreed shape; the sentence names the field."""
