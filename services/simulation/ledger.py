"""The ledger of the external systems: what the gateway and the carrier really did, in an SQLite file of its own.

Times are `at_ms`, milliseconds since 1970 UTC; money is in minor units. Any SQLite client can read it:

- `charges(key, order_id, amount_cents, currency, outcome, reason, at_ms)`: `outcome` is `taken`, `declined`
  or, until the customer has confirmed it, `accepted`.
- `callbacks(charge_key, due_ms, sent_ms)`: charges that were accepted first; `sent_ms` is when the report of it was taken.
- `voids(charge_key, returned_cents, at_ms)`: a charge that is undone permanently; a later one is declined.
- `refunds(key, charge_key, amount_cents, currency, at_ms)`: money that was returned.
- `parcels(key, order_id, country, outcome, detail, at_ms)`: `outcome` is `booked` (`detail`: tracking),
  `undeliverable` (`detail`: reason), `recalled` or, until the carrier has fetched it, `accepted` (`detail`: tracking).
- `collections(parcel_key, due_ms, sent_ms)`: parcels that were accepted first, as `callbacks` of charges.

The gateway's balance: charges taken, less `voids.returned_cents`, less refunds.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, TypeVar

from eventlib import RetryableError, TerminalError

T = TypeVar("T")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS charges (
    key TEXT PRIMARY KEY, order_id TEXT NOT NULL, amount_cents INTEGER NOT NULL, currency TEXT NOT NULL,
    outcome TEXT NOT NULL, reason TEXT NOT NULL, at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS callbacks (
    charge_key TEXT PRIMARY KEY, due_ms INTEGER NOT NULL, sent_ms INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS callbacks_to_send ON callbacks (due_ms) WHERE sent_ms IS NULL;
CREATE TABLE IF NOT EXISTS voids (
    charge_key TEXT PRIMARY KEY, returned_cents INTEGER NOT NULL, at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS refunds (
    key TEXT PRIMARY KEY, charge_key TEXT NOT NULL, amount_cents INTEGER NOT NULL, currency TEXT NOT NULL,
    at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS refunds_of_charge ON refunds (charge_key);
CREATE TABLE IF NOT EXISTS collections (
    parcel_key TEXT PRIMARY KEY, due_ms INTEGER NOT NULL, sent_ms INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS collections_to_send ON collections (due_ms) WHERE sent_ms IS NULL;
CREATE TABLE IF NOT EXISTS parcels (
    key TEXT PRIMARY KEY, order_id TEXT NOT NULL, country TEXT NOT NULL, outcome TEXT NOT NULL,
    detail TEXT NOT NULL, at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
"""

_BUSY_PAUSE_S = 0.001
BUSY_S = 10.0
"""How long opening a ledger waits for another process that has it locked."""


class LedgerConflict(TerminalError):
    """A key was reused with other content, or a refund exceeds what was charged."""


class Ledger:
    """A durable ledger; several processes may open the same file, `:memory:` belongs to this process alone.

    Guarantee: an answer is durable before it is returned. Calls that arrive in one pass of the event loop share one
    transaction, so that many at once cost little more than one. Raises: RetryableError while others lock the file.
    """

    def __init__(self, path: str | Path) -> None:
        self._db = _connected(Path(path))
        self._waiting: list[tuple[Callable[[sqlite3.Connection], Any], asyncio.Future[Any]]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    def close(self) -> None:
        """Write pending changes, and close the file."""
        while self._waiting and not self._flush():
            pass
        self._db.close()

    async def write(self, change: Callable[[sqlite3.Connection], T]) -> T:
        """Make a change, and return its answer once it is durable.

        `change` reads before it writes, so that a LedgerConflict leaves nothing behind; it is called again when the
        transaction has to be restarted.
        """
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._waiting.append((change, future))
        if len(self._waiting) == 1:
            loop.call_soon(self._flush_or_retry, loop)
        answer: T = await future
        return answer

    def _flush_or_retry(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._waiting and not self._flush():
            loop.call_later(_BUSY_PAUSE_S, self._flush_or_retry, loop)

    def _flush(self) -> bool:
        """Write all pending changes in one transaction; False when another process is writing."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            results = [_result_of(change, self._db) for change, _ in self._waiting]
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            if not self._db.in_transaction and error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                return False
            self._db.rollback()
            results = [error] * len(self._waiting)
        entries, self._waiting = self._waiting, []
        for (_, future), result in zip(entries, results, strict=True):
            if future.done():  # its caller was cancelled
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)
        return True


def _result_of(change: Callable[[sqlite3.Connection], Any], db: sqlite3.Connection) -> Any:
    try:
        return change(db)
    except LedgerConflict as conflict:
        return conflict


def _connected(path: Path) -> sqlite3.Connection:
    db: sqlite3.Connection | None = None
    try:
        db = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        db.executescript(_SCHEMA)
        db.execute("PRAGMA busy_timeout=0")
    except sqlite3.OperationalError as error:
        if db is not None:
            db.close()
        raise RetryableError(f"the ledger {path} is unavailable: {error}") from error
    return db


def open_ledger(path: Path) -> Ledger:
    """Open a ledger's file, or create it with its directory. Raises: RetryableError while others lock it."""
    if path != Path(":memory:"):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            path.touch(mode=0o600)  # it has what customers pay; SQLite gives its other files the same mode
    return Ledger(path)
