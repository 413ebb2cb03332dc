"""A simulated carrier."""

from sqlite3 import Connection as Database

from eventlib.values import now_ms
from services.dispatch.ports import Booked, Recalled, Undeliverable
from services.simulation.faults import CarrierFaults, Chance, Connection
from services.simulation.ledger import Ledger, LedgerConflict

_RECALLED = "recalled"


class SimulatedCarrier:
    """A carrier with its own ledger; the seed decides which orders are undeliverable, and which calls fail.

    Guarantee: a call that is repeated under its key acts once and gets the same answer.
    Raises: LedgerConflict for a key that is reused with other content; OutcomeUnknown according to its faults.
    """

    def __init__(self, ledger: Ledger, faults: CarrierFaults | None = None, *, seed: int = 0) -> None:
        self._ledger = ledger
        self._faults = faults or CarrierFaults()
        self._chance = Chance(seed, "carrier")
        self._connection = Connection(self._faults, self._chance)

    async def book(self, key: str, order_id: str, country: str) -> Booked | Undeliverable:
        """Fetch a parcel, or refuse."""
        reason = "undeliverable" if self._chance.of(self._faults.undeliverable, "undeliverable", order_id) else ""

        async def act() -> Booked | Undeliverable:
            return await self._ledger.write(lambda db: _book(db, (key, order_id, country), reason))

        await self._connection.refuse_if_silent(f"book {key}", order_id, act)
        return await self._connection.call(f"book {key}", act)

    async def recall(self, key: str) -> Booked | Recalled:
        """Cancel the booking with this key, whether it was made or not; Booked when the parcel is on its way."""
        has_left = self._chance.of(self._faults.departed, "departed", key)
        return await self._connection.call(
            f"recall {key}", lambda: self._ledger.write(lambda db: _recall(db, key, has_left=has_left))
        )


def _book(db: Database, asked: tuple[str, str, str], reason: str) -> Booked | Undeliverable:
    key = asked[0]
    query = "SELECT order_id, country, outcome, detail FROM parcels WHERE key = ?"
    found = db.execute(query, (key,)).fetchone()
    if found is None:
        outcome, detail = ("undeliverable", reason) if reason else ("booked", f"P-{key[:12]}")
        db.execute("INSERT INTO parcels VALUES (?, ?, ?, ?, ?, ?)", (*asked, outcome, detail, now_ms()))
    else:
        outcome, detail = found[2:]
        if outcome == _RECALLED:
            return Undeliverable(_RECALLED)
        if found[:2] != asked[1:]:
            raise LedgerConflict(f"parcel {key} was {found[:2]}, and is now booked as {asked[1:]}")
    return Booked(detail) if outcome == "booked" else Undeliverable(detail)


def _recall(db: Database, key: str, *, has_left: bool) -> Booked | Recalled:
    found = db.execute("SELECT outcome, detail FROM parcels WHERE key = ?", (key,)).fetchone()
    if found is None:
        db.execute("INSERT INTO parcels VALUES (?, '', '', ?, '', ?)", (key, _RECALLED, now_ms()))
        return Recalled()
    outcome, tracking = found
    if outcome == "booked" and has_left:
        return Booked(tracking)
    db.execute(
        "UPDATE parcels SET outcome = ?, at_ms = ? WHERE key = ? AND outcome = 'booked'", (_RECALLED, now_ms(), key)
    )
    return Recalled()
