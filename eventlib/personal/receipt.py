"""Erasures on the log: the topic `_erasures`, and the receipts in it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from eventlib.errors import ContractError
from eventlib.model.record import Record
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
BODY_HASH = "http-body"
"""The header of a request with an Idempotency-Key: the hash of the HTTP body it came from (32 hex digits).

Where the request has personal data, the hash is encrypted with the keys of its subjects, since a body could be guessed by it.
"""


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


def guessable(hashes: Mapping[str, int] | None) -> str:
    """Return what an erasure leaves of requests of an earlier version; `hashes` counts them by topic, None if that is not known."""
    where = "if there are any" if hashes is None else ", ".join(f"{n} in {topic}" for topic, n in hashes.items())
    return (
        f"the header {BODY_HASH} of requests that an earlier version wrote ({where}): a hash without a key of the whole body, "
        "which can be guessed by it until these records are removed"
    )


def read_receipt(record: Record) -> Receipt:
    """Return what a record of the topic `_erasures` holds. Raises: ContractError."""
    try:
        found = json.loads(record.value or b"null")
        return Receipt(**{**found, "not_covered": tuple(found["not_covered"])})
    except (ValueError, TypeError, LookupError) as error:
        raise ContractError(f"{record.topic}/{record.offset} is no erasure: {error}") from error
