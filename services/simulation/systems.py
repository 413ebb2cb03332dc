"""A simulated payment gateway, and a simulated carrier."""

from sqlite3 import Connection as Database
from typing import Generic, TypeVar

from eventlib.values import now_ms
from services.dispatch.ports import Booked, Planned, Recalled, Undeliverable
from services.payment.ports import Accepted, Charged, Declined, Refunded, Voided
from services.simulation.faults import CarrierFaults, Chance, Connection, Faults, GatewayFaults
from services.simulation.ledger import Ledger, LedgerConflict

F = TypeVar("F", bound=Faults)
_RECALLED = "recalled"


class _Simulated(Generic[F]):
    """A system with its own ledger; the seed decides which orders it refuses, and which calls fail.

    `later_s` is how long what it only accepts takes to be done. Guarantee: a call that is repeated under its key acts once
    and gets the same answer. Raises: LedgerConflict for a key that is reused with other content; OutcomeUnknown according
    to its faults.
    """

    name: str
    no_faults: F

    def __init__(self, ledger: Ledger, faults: F | None = None, *, seed: int = 0, later_s: float = 0.0) -> None:
        self._ledger = ledger
        self._later_ms = round(later_s * 1_000)
        self._faults = faults or self.no_faults
        self._chance = Chance(seed, self.name)
        self._connection = Connection(self._faults, self._chance)


class SimulatedGateway(_Simulated[GatewayFaults]):
    """A gateway."""

    name = "gateway"
    no_faults = GatewayFaults()

    async def charge(self, key: str, order_id: str, amount_cents: int, currency: str) -> Charged | Accepted | Declined:
        """Charge an amount, accept to, or decline."""
        later_ms = self._later_ms if self._chance.of(self._faults.later, "later", order_id) else None
        reason = "declined" if self._chance.of(self._faults.decline, "decline", order_id) else ""

        async def act() -> Charged | Accepted | Declined:
            asked = key, order_id, amount_cents, currency
            return await self._ledger.write(lambda db: _charge(db, asked, reason, later_ms))

        await self._connection.refuse_if_silent(f"charge {key}", order_id, act)
        return await self._connection.call(f"charge {key}", act)

    async def void(self, key: str) -> Voided:
        """Undo the charge with this key, whether it was made or not; a later charge is declined."""
        return await self._connection.call(f"void {key}", lambda: self._ledger.write(lambda db: _void(db, key)))

    async def refund(self, key: str, charge_key: str, amount_cents: int, currency: str) -> Refunded:
        """Refund part or all of a charge."""
        asked = (charge_key, amount_cents, currency)
        return await self._connection.call(
            f"refund {key}", lambda: self._ledger.write(lambda db: _refund(db, key, asked))
        )


class SimulatedCarrier(_Simulated[CarrierFaults]):
    """A carrier."""

    name = "carrier"
    no_faults = CarrierFaults()

    async def book(self, key: str, order_id: str, country: str) -> Booked | Planned | Undeliverable:
        """Fetch a parcel, agree to fetch it later, or refuse."""
        later_ms = self._later_ms if self._chance.of(self._faults.later, "later", order_id) else None
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


def _charge(
    db: Database, asked: tuple[str, str, int, str], reason: str, later_ms: int | None
) -> Charged | Accepted | Declined:
    """Charge under a key; `later_ms` is after how long the customer confirms it, None for at once."""
    key = asked[0]
    found = db.execute("SELECT order_id, amount_cents, currency, reason FROM charges WHERE key = ?", (key,)).fetchone()
    if found is not None and found[:3] != asked[1:]:
        raise LedgerConflict(f"charge {key} was for {found[:3]}, and is now asked for {asked[1:]}")
    if db.execute("SELECT 1 FROM voids WHERE charge_key = ?", (key,)).fetchone():
        return Declined("voided")
    if found is None:
        outcome = "accepted" if later_ms is not None else "declined" if reason else "taken"
        db.execute("INSERT INTO charges VALUES (?, ?, ?, ?, ?, ?, ?)", (*asked, outcome, reason, now_ms()))
        if later_ms is not None:
            db.execute("INSERT INTO callbacks VALUES (?, ?, NULL)", (key, now_ms() + later_ms))
    else:
        reason = found[3]
    if db.execute("SELECT 1 FROM callbacks WHERE charge_key = ?", (key,)).fetchone():
        return Accepted()
    return Declined(reason) if reason else Charged()


def _void(db: Database, key: str) -> Voided:
    found = db.execute("SELECT returned_cents FROM voids WHERE charge_key = ?", (key,)).fetchone()
    if found is None:
        found = (_held(db, key),)
        db.execute("INSERT INTO voids VALUES (?, ?, ?)", (key, found[0], now_ms()))
    return Voided(found[0])


def _refund(db: Database, key: str, asked: tuple[str, int, str]) -> Refunded:
    charge_key, amount_cents, currency = asked
    found = db.execute("SELECT charge_key, amount_cents, currency FROM refunds WHERE key = ?", (key,)).fetchone()
    if found is not None:
        if found != asked:
            raise LedgerConflict(f"refund {key} was for {found}, and is now asked for {asked}")
        return Refunded()
    if amount_cents > (held := _held(db, charge_key)):
        raise LedgerConflict(f"refund {key} wants {amount_cents} of charge {charge_key}, which holds {held}")
    db.execute("INSERT INTO refunds VALUES (?, ?, ?, ?, ?)", (key, charge_key, amount_cents, currency, now_ms()))
    return Refunded()


def _held(db: Database, charge_key: str) -> int:
    """Return what the gateway still holds of a charge (minor units)."""
    (held,) = db.execute(
        """SELECT coalesce((SELECT amount_cents FROM charges WHERE key = ?1 AND outcome = 'taken'), 0)
                - coalesce((SELECT returned_cents FROM voids WHERE charge_key = ?1), 0)
                - coalesce((SELECT sum(amount_cents) FROM refunds WHERE charge_key = ?1), 0)""",
        (charge_key,),
    ).fetchone()
    return int(held)


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
