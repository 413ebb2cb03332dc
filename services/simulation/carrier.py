"""A simulated carrier."""

from sqlite3 import Connection as Database

from eventlib.values import now_ms
from services.dispatch.ports import Booked, Planned, Recalled, Undeliverable
from services.simulation.faults import CarrierFaults, Chance, Connection
from services.simulation.ledger import Ledger, LedgerConflict

_RECALLED = "recalled"


class SimulatedCarrier:
    """A carrier with its own ledger; the seed decides which orders are undeliverable, and which calls fail.

    Guarantee: a call that is repeated under its key acts once and gets the same answer.
    Raises: LedgerConflict for a key that is reused with other content; OutcomeUnknown according to its faults.
    """

    def __init__(
        self, ledger: Ledger, faults: CarrierFaults | None = None, *, seed: int = 0, collect_s: float = 0.0
    ) -> None:
        self._ledger = ledger
        self._collect_ms = round(collect_s * 1_000)
        self._faults = faults or CarrierFaults()
        self._chance = Chance(seed, "carrier")
        self._connection = Connection(self._faults, self._chance)

    async def book(self, key: str, order_id: str, country: str) -> Booked | Planned | Undeliverable:
        """Fetch a parcel, agree to fetch it later, or refuse."""
        later_ms = self._collect_ms if self._chance.of(self._faults.later, "later", order_id) else None
        reason = "undeliverable" if self._chance.of(self._faults.undeliverable, "undeliverable", order_id) else ""

        async def act() -> Booked | Planned | Undeliverable:
            return await self._ledger.write(lambda db: _book(db, (key, order_id, country), reason, later_ms))

        await self._connection.refuse_if_silent(f"book {key}", order_id, act)
        return await self._connection.call(f"book {key}", act)

    async def recall(self, key: str) -> Booked | Recalled:
        """Cancel the booking with this key, whether it was made or not; Booked when the parcel is on its way."""
        has_left = self._chance.of(self._faults.departed, "departed", key)
        return await self._connection.call(
            f"recall {key}", lambda: self._ledger.write(lambda db: _recall(db, key, has_left=has_left))
        )


def _book(
    db: Database, asked: tuple[str, str, str], reason: str, later_ms: int | None
) -> Booked | Planned | Undeliverable:
    """Book under a key; `later_ms` is after how long the parcel is fetched, None for at once."""
    key = asked[0]
    query = "SELECT order_id, country, outcome, detail FROM parcels WHERE key = ?"
    found = db.execute(query, (key,)).fetchone()
    if found is None:
        accepted = "booked" if later_ms is None else "accepted"
        outcome, detail = ("undeliverable", reason) if reason else (accepted, f"P-{key[:12]}")
        db.execute("INSERT INTO parcels VALUES (?, ?, ?, ?, ?, ?)", (*asked, outcome, detail, now_ms()))
        if later_ms is not None:
            db.execute("INSERT INTO collections VALUES (?, ?, NULL)", (key, now_ms() + later_ms))
    else:
        outcome, detail = found[2:]
        if outcome == _RECALLED:
            return Undeliverable(_RECALLED)
        if found[:2] != asked[1:]:
            raise LedgerConflict(f"parcel {key} was {found[:2]}, and is now booked as {asked[1:]}")
    if _is_collected_later(db, key):
        return Planned()
    return Booked(detail) if outcome == "booked" else Undeliverable(detail)


def _recall(db: Database, key: str, *, has_left: bool) -> Booked | Recalled:
    found = db.execute("SELECT outcome, detail FROM parcels WHERE key = ?", (key,)).fetchone()
    if found is None:
        db.execute("INSERT INTO parcels VALUES (?, '', '', ?, '', ?)", (key, _RECALLED, now_ms()))
        return Recalled()
    outcome, tracking = found
    if outcome == "booked" and (has_left or _is_collected_later(db, key)):
        return Booked(tracking)
    db.execute(
        "UPDATE parcels SET outcome = ?, at_ms = ? WHERE key = ? AND outcome IN ('booked', 'accepted')",
        (_RECALLED, now_ms(), key),
    )
    return Recalled()


def _is_collected_later(db: Database, key: str) -> bool:
    """Return whether a parcel was only accepted at first: one that is booked by now has left."""
    return db.execute("SELECT 1 FROM collections WHERE parcel_key = ?", (key,)).fetchone() is not None
