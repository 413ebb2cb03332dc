"""Why an order of a file is refused."""

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """The reasons by precedence: an order is refused for the first that applies."""

    MALFORMED = "malformed"
    CREDIT_NOTE = "credit note"
    QUANTITY = "quantity"
    UNIT_PRICE = "unit price"
    NOTHING_TO_PAY = "nothing to pay"
    CONFLICT = "conflict"
    """The log has an order with this id already, with other content."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """One order that is not placed: its line in the file (from 1), and what is wrong with it.

    `order_id` is None where it could not be read.
    """

    file_line: int
    order_id: str | None
    reason: Reason
    detail: str


class Malformed(ValueError):
    """Not a well-formed order; the message names the field."""
