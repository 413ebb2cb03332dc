"""Ways to damage a log, each done to one order of its own, and the rules that have to name that order."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from eventlib.eventlog import EventLog
from eventlib.log.sqlite import sealed
from eventlib.log.sqlite.state import OFFSET_BITS
from eventlib.model.event import Event
from eventlib.opening import open_log
from services import shop
from services.order.state import Order
from services.payment.events import PaymentRefunded
from tests.in_rows import in_rows

COLUMNS = (
    "position, recorded_at, key, value, id, type, source, subject, sequence, correlation_id, causation_id, "
    "traceparent, headers"
)
Stored = dict[str, Any]


def copied(url: str, directory: Path) -> Path:
    """Return the file of a copy of a log."""
    path = directory / "shop.db"
    with sqlite3.connect(url.removeprefix("sqlite:///")) as source, sqlite3.connect(path) as copy:
        source.backup(copy)
    return in_rows(path)


class Damaged:
    """A log's file that is being damaged."""

    def __init__(self, connection: sqlite3.Connection, log: EventLog) -> None:
        self._db = connection
        self.log = log

    def the(self, kind: str, order_id: str) -> Stored:
        """Return the first event of a type about an order."""
        sql = f"SELECT {COLUMNS} FROM records WHERE type = ? AND (key = ? OR subject = ?) AND id IS NOT NULL"  # noqa: S608  constants of this file only
        own = "AND position >> 40 IN (SELECT number FROM partitions WHERE topic NOT GLOB '*.changelog')"
        cursor = self._db.execute(f"{sql} {own} ORDER BY position", (kind, order_id.encode(), order_id))
        return dict(zip([name for name, *_ in cursor.description], cursor.fetchone(), strict=True))

    def state(self, decider: str, key: str) -> Stored:
        """Return the newest changelog record of a decider's key."""
        sql = f"SELECT {COLUMNS} FROM records WHERE key = ? ORDER BY position DESC"  # noqa: S608  as above
        cursor = self._db.execute(sql, (f"state/{decider}/{key}".encode(),))
        return dict(zip([name for name, *_ in cursor.description], cursor.fetchone(), strict=True))

    def drop(self, record: Stored) -> None:
        self._db.execute("DELETE FROM records WHERE position = ?", (record["position"],))

    def alter(self, record: Stored, **changed: Any) -> None:
        sets = ", ".join(f"{name} = ?" for name in changed)
        self._db.execute(f"UPDATE records SET {sets} WHERE position = ?", (*changed.values(), record["position"]))  # noqa: S608  as above

    def append(self, record: Stored, *, elsewhere: bool = False, **changed: Any) -> None:
        """Put a copy of a record at the end of its partition, or of the next one."""
        number = record["position"] >> OFFSET_BITS
        if elsewhere:
            sql = "SELECT b.number FROM partitions a JOIN partitions b USING (topic) WHERE a.number = ? AND b.number <> a.number"
            (number,) = self._db.execute(f"{sql} ORDER BY b.number", (number,)).fetchone()
        (end,) = self._db.execute("SELECT next_offset FROM partitions WHERE number = ?", (number,)).fetchone()
        copy = record | changed | {"position": (number << OFFSET_BITS) + end}
        self._db.execute(f"INSERT INTO records ({COLUMNS}) VALUES ({', '.join('?' * len(copy))})", (*copy.values(),))  # noqa: S608  as above
        self._db.execute("UPDATE partitions SET next_offset = next_offset + 1 WHERE number = ?", (number,))

    def event(self, record: Stored) -> Any:
        return self.log.codec.decode(self.log.choreography.event(record["type"]), record["value"])

    def bytes_of(self, event: Event) -> bytes:
        return self.log.codec.encode(event)


@dataclass(frozen=True)
class Damage:
    """What is done to an order (`do` takes an intact one too), and the rules that have to name it.

    `or_else` has rules that may name it in the place of others: where it depends on when tasks had transactions, and
    in which order.
    """

    name: str
    do: Callable[[Damaged, str, str], None]
    rules: frozenset[str]
    cancelled: bool = False
    or_else: Mapping[str, str] = field(default_factory=dict)


def _drop(kind: str) -> Callable[[Damaged, str, str], None]:
    return lambda log, order, _: log.drop(log.the(kind, order))


def _alter(kind: str, **changed: Any) -> Callable[[Damaged, str, str], None]:
    return lambda log, order, _: log.alter(log.the(kind, order), **changed)


def _one_cent_less(log: Damaged, order: str, _: str) -> None:
    taken = log.the("PaymentTaken", order)
    event = log.event(taken)
    log.alter(taken, value=log.bytes_of(event.model_copy(update={"amount_cents": event.amount_cents - 1})))


def _charged_less(log: Damaged, order: str, _: str) -> None:
    charge = log.the("ChargeRequested", order)
    event = log.event(charge)
    log.alter(charge, value=log.bytes_of(event.model_copy(update={"amount_cents": event.amount_cents - 1})))


def _told_otherwise(log: Damaged, order: str, _: str) -> None:
    known = log.state("order", order)
    decider = log.log.choreography.decider("order")
    state = log.log.codec.decode(decider.state, known["value"])
    log.alter(known, value=log.log.codec.encode(replace(state, taken_cents=state.taken_cents - 1)))


def _earlier(log: Damaged, order: str, _: str) -> None:
    charge = log.the("ChargeRequested", order)
    log.alter(charge, recorded_at=charge["recorded_at"] - 600_000)


def _forged_refund(log: Damaged, order: str, _: str) -> None:
    taken, ended = log.the("PaymentTaken", order), log.the("OrderCompleted", order)
    event = log.event(taken)
    refund = PaymentRefunded(
        order_id=order,
        charge_key=event.charge_key,
        amount_cents=event.amount_cents,
        currency=event.currency,
        reason="forged",
    )
    later = {"recorded_at": ended["recorded_at"] + 1, "causation_id": ended["id"], "sequence": taken["sequence"] + 1}
    log.append(taken, id="f" * 32, type="PaymentRefunded", value=log.bytes_of(refund), **later)


def _anothers_cause(log: Damaged, order: str, intact: str) -> None:
    log.alter(log.the("StockReserved", order), causation_id=log.the("LineReserved", intact)["id"])


def _moved(log: Damaged, order: str, _: str) -> None:
    ended = log.the("OrderCompleted", order)
    log.drop(ended)
    log.append(ended, elsewhere=True)


def _twice(kind: str, **changed: Any) -> Callable[[Damaged, str, str], None]:
    return lambda log, order, _: log.append(log.the(kind, order), **changed)


DAMAGES = (
    Damage(
        "an answer dropped",
        _drop("PaymentTaken"),
        frozenset(
            {"decision", "not-decided", "cause-missing", "completed_orders_are_whole", "customers_are_told_the_truth"}
        ),
    ),
    Damage(
        "the end dropped",
        _drop("OrderCompleted"),
        frozenset({"decision", "orders_come_to_an_end", "customers_are_told_the_truth"}),
    ),
    Damage(
        "a step doubled",
        _twice("StockReserved"),
        frozenset({"id-twice", "sequence", "steps_happen_once", "charges_follow_stock"}),
    ),
    Damage(
        "a charge doubled",
        _twice("PaymentTaken", id="d" * 32, sequence=3),
        frozenset(
            {"not-decided", "answered-twice", "steps_happen_once", "money_is_conserved", "completed_orders_are_whole"}
        ),
    ),
    Damage(
        "an amount altered", _one_cent_less, frozenset({"completed_orders_are_whole", "customers_are_told_the_truth"})
    ),
    Damage("a decision altered", _charged_less, frozenset({"decision"})),
    Damage("a live state altered", _told_otherwise, frozenset({"customers_are_told_the_truth"})),
    Damage(
        "a step before its cause",
        _earlier,
        frozenset({"decision", "not-journalled", "cause-later", "charges_follow_stock"}),
    ),
    Damage(
        "a refund forged", _forged_refund, frozenset({"not-journalled", "conformance", "completed_orders_are_whole"})
    ),
    Damage(
        "said by somebody else",
        _alter("DispatchRequested", source="order/order", sequence=9),
        frozenset({"decision", "not-decided", "conformance", "sequence"}),
        or_else={"not-journalled": "not-decided"},
    ),
    Damage(
        "a cause forgotten",
        _alter("OrderCompleted", causation_id=None),
        frozenset({"decision", "not-decided", "cause-missing"}),
    ),
    Damage("a cause of another order", _anothers_cause, frozenset({"decision", "not-decided", "saga-mixed"})),
    Damage("another saga's name", _alter("OrderCompleted", correlation_id="0" * 32), frozenset({"saga-mixed"})),
    Damage("a number skipped", _alter("OrderCompleted", sequence=7), frozenset({"sequence"})),
    Damage("in a partition not its own", _moved, frozenset({"misplaced"})),
    Damage(
        "bytes cut off",
        _alter("OrderDispatched", value=b"\x00\x00\x00\x00\x01"),
        frozenset({"decision", "unreadable", "completed_orders_are_whole"}),
    ),
    Damage(
        "a compensation dropped",
        _drop("LineReleased"),
        frozenset({"decision", "cancelled_orders_leave_nothing"}),
        cancelled=True,
        or_else={"sequence": "decision"},  # where the shelf said something more of that order's product for it
    ),
)


def orders_ended(path: Path, kind: str) -> list[str]:
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT DISTINCT CAST(key AS TEXT) FROM records WHERE type = ? ORDER BY 1", (kind,))
        return [order for (order,) in rows]


def declined(path: Path) -> list[str]:
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT CAST(key AS TEXT) FROM records WHERE type = 'PaymentFailed' ORDER BY 1")
        return [order for (order,) in rows]


async def damage_all(path: Path, damages: Sequence[Damage]) -> Mapping[str, str]:
    """Do each damage to an order of its own, and return which order that is."""
    completed, cancelled = orders_ended(path, "OrderCompleted"), declined(path)
    chosen = dict[str, str]()
    async with open_log(f"sqlite:///{path}", shop) as log:
        await log.codec.prepare([("order.changelog", Order)])
        with sqlite3.connect(path) as connection:
            done = Damaged(connection, log)
            for damage in damages:
                number = [each for each in DAMAGES if each.cancelled == damage.cancelled].index(damage)
                order = cancelled[number] if damage.cancelled else completed[-1 - number]
                damage.do(done, order, completed[0])
                chosen[damage.name] = order
            as_if_written_so(connection)
    return chosen


def as_if_written_so(connection: sqlite3.Connection) -> None:
    """Leave what was changed to the audit's rules: as in a log from before there were checksums, nothing tells of it."""
    connection.execute("UPDATE records SET checksum = NULL")
    connection.execute("UPDATE partitions SET dense_from = next_offset, checked_from = next_offset, digest = 0")
    seal_partitions(connection)


def seal_partitions(connection: sqlite3.Connection) -> None:
    """Give the rows of partitions the checksums of what they say now."""
    sealed.seal_partitions(connection, connection.execute(sealed.PARTITIONS).fetchall())
