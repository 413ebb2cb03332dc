"""A simulated payment gateway."""

from sqlite3 import Connection as Database

from eventlib.values import now_ms
from services.payment.ports import Accepted, Charged, Declined, Refunded, Voided
from services.simulation.faults import Chance, Connection, GatewayFaults
from services.simulation.ledger import Ledger, LedgerConflict


class SimulatedGateway:
    """A gateway with its own ledger; the seed decides which orders are declined, and which calls fail.

    Guarantee: a call that is repeated under its key acts once and gets the same answer.
    Raises: LedgerConflict for a key that is reused with other content; OutcomeUnknown according to its faults.
    """

    def __init__(
        self, ledger: Ledger, faults: GatewayFaults | None = None, *, seed: int = 0, confirm_s: float = 0.0
    ) -> None:
        self._ledger = ledger
        self._confirm_ms = round(confirm_s * 1_000)
        self._faults = faults or GatewayFaults()
        self._chance = Chance(seed, "gateway")
        self._connection = Connection(self._faults, self._chance)

    async def charge(self, key: str, order_id: str, amount_cents: int, currency: str) -> Charged | Accepted | Declined:
        """Charge an amount, accept to, or decline."""
        later_ms = self._confirm_ms if self._chance.of(self._faults.later, "later", order_id) else None
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
