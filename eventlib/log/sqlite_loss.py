"""A lost tail of an SQLite log: how it is told, and how the log goes on without it when a person has decided so."""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from secrets import token_hex

from eventlib.errors import LogCorrupt, TailLost
from eventlib.log.rules import without_tail
from eventlib.log.sqlite_mark import mark_beside, mark_path, missing_offsets
from eventlib.log.sqlite_sealed import meta_value, partition_rows, write_meta
from eventlib.log.sqlite_transaction import Transaction
from eventlib.times import now_ms

_LOSS = "loss."


@dataclass(frozen=True, slots=True)
class Loss:
    """Records that a log has lost, and a person's decision to go on without them.

    `records` is how many are missing, as far as that is known; `former_log_id` is whose they were.
    """

    at_ms: int
    records: int
    reason: str
    former_log_id: str


def tail_lost(path: Path, records: int) -> TailLost:
    """Return the refusal to write to a log that has fewer records than were acknowledged."""
    return TailLost(
        f"the log {path} lacks {records:,} {'record that was' if records == 1 else 'records that were'} acknowledged: "
        f"its write-ahead log was lost or damaged, or an older copy was put in its place. {without_tail(path)}"
    )


def refuse_lost(path: Path) -> None:
    """Refuse to make a new log where a mark says that one has been. Raises: TailLost."""
    mark = mark_beside(path)
    if mark is not None:
        raise TailLost(
            f"the log {path} is empty or gone, and had {mark.offsets:,} records. Put a copy in its place (`eventlib restore`"
            f"); to begin anew without them, delete {mark_path(path).name}"
        )


def now_another(path: Path) -> LogCorrupt:
    """Return the end of a process's use of a log that goes on as another one."""
    return LogCorrupt(
        f"the log {path} goes on as another one, since a loss of records was accepted or a copy restored: what this "
        "process knows of it does not hold any more; start it again"
    )


def accept_loss(path: Path, connection: sqlite3.Connection, reason: str) -> Loss:
    """Let a log go on with the records that it has, under a new log_id, so that no cache of the lost ones is used.

    Guarantee: recorded in the log itself, with the reason. Raises: sqlite3.Error.
    """
    with Transaction(connection):
        loss = record_loss(connection, missing_in(path, connection), reason)
    mark_path(path).unlink(missing_ok=True)
    return loss


def record_loss(connection: sqlite3.Connection, records: int, reason: str) -> Loss:
    """Note a loss, and give the log a new log_id, in the transaction that was begun. Raises: sqlite3.Error."""
    loss = Loss(now_ms(), records, reason, meta_value(connection, "log_id") or "")
    write_meta(connection, {"log_id": token_hex(16), f"{_LOSS}{loss.at_ms}": json.dumps(asdict(loss))})
    return loss


def losses(connection: sqlite3.Connection) -> Sequence[Loss]:
    """Return the losses that were accepted, oldest first. Raises: sqlite3.Error."""
    names = [
        row[0] for row in connection.execute("SELECT name FROM meta WHERE name GLOB ? ORDER BY name", (f"{_LOSS}*",))
    ]
    return [Loss(**json.loads(meta_value(connection, name) or "")) for name in names]


def missing_in(path: Path, connection: sqlite3.Connection) -> int:
    """Return how many records the mark beside a log has seen that the log lacks. Raises: sqlite3.Error."""
    rows = [*partition_rows(connection)]
    if any(damage for _, damage in rows):
        return 0
    return missing_offsets(path, meta_value(connection, "log_id") or "", sum(row[3] for row, _ in rows))
