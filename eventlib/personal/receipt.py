"""Erasures on the log: the topic `_erasures`, and the receipts in it."""

import json
from dataclasses import dataclass, field

from eventlib.errors import ContractError
from eventlib.log.record import Record
from eventlib.model.topic import Topic

ERASURES = Topic("_erasures", partitions=1)
REQUESTED, ERASED_TYPE = "SubjectErasureRequested", "SubjectErased"

NOT_COVERED = (
    "values that were written before their field was declared personal",
    "fields that are not declared personal, and the subject's id itself",
    "what processes hold in memory until they restart or drop it",
    "copies of the key store that were made before, until the erasures are applied to them",
    "tables that the application's own views and exports write in plain text",
    "what external systems have received through effects and exports",
)
"""What no erasure covers, as each receipt states."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What an erasure did: who asked for it and why, when the key was destroyed, and how many records hold its ciphertext.

    `records` counts them by topic, as far as the log is kept; None when they were not counted.
    """

    erasure: str
    subject: str
    reason: str
    by: str
    requested_at: str
    erased_at: str = ""
    had_key: bool = False
    records: dict[str, int] | None = None
    not_covered: tuple[str, ...] = field(default=NOT_COVERED)


def read_receipt(record: Record) -> Receipt:
    """Return what a record of the topic `_erasures` holds. Raises: ContractError."""
    try:
        found = json.loads(record.value or b"null")
        return Receipt(**{**found, "not_covered": tuple(found["not_covered"])})
    except (ValueError, TypeError, LookupError) as error:
        raise ContractError(f"{record.topic}/{record.offset} is no erasure: {error}") from error
