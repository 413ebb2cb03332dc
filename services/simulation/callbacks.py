"""The simulated systems' callbacks: what came of charges and parcels that they had accepted, signed, and sent until taken."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from sqlite3 import Connection as Database
from sqlite3 import Error as DatabaseError
from time import time
from typing import Literal, NamedTuple

import httpx
from fastapi import FastAPI
from pydantic import BaseModel

from eventlib.config import SettingsError
from eventlib.http import http_client
from eventlib.values import now_ms
from eventlib.webhooks import STANDARD_WEBHOOKS, SecretsFile, SigningSecret
from services.dispatch.callbacks import Collected, NotCollected
from services.payment.callbacks import Confirmed, NotConfirmed
from services.settings import ShopSettings
from services.simulation.ledger import Ledger

_PAUSE_S = 0.1
_AT_ONCE = 50


class Reports(NamedTuple):
    """One kind of reports: their table in the ledger, the column of its keys, and what is reported of one."""

    table: str
    key: str
    report: Callable[[Database, str], BaseModel]

    def due(self, db: Database) -> list[tuple[str, BaseModel]]:
        """Return what is to be reported now, each with its key; the end of each charge or parcel is decided here."""
        query = f"SELECT {self.key} FROM {self.table} WHERE sent_ms IS NULL AND due_ms <= ? ORDER BY due_ms LIMIT ?"  # noqa: S608  names of the code
        return [(key, self.report(db, key)) for (key,) in db.execute(query, (now_ms(), _AT_ONCE)).fetchall()]

    def mark_sent(self, db: Database, key: str) -> None:
        """Mark a report as taken."""
        db.execute(f"UPDATE {self.table} SET sent_ms = ? WHERE {self.key} = ?", (now_ms(), key))  # noqa: S608  as above


class Callbacks:
    """Reports to an address. Guarantee: a report is sent again, under the same id, until it is taken."""

    def __init__(self, ledger: Ledger, url: str, secrets: Callable[[], Sequence[SigningSecret]], kind: Reports) -> None:
        self._ledger = ledger
        self._url = url
        self._secrets = secrets
        self._kind = kind

    async def run(self) -> None:
        """Report until cancelled."""
        async with http_client(trust_env=False) as client:
            while True:
                with suppress(
                    DatabaseError
                ):  # its disk may be full, or broken: as the server, it goes on when that ends
                    due = await self._ledger.write(self._kind.due)
                    await asyncio.gather(*(self._report(client, *each) for each in due))
                await asyncio.sleep(_PAUSE_S)

    async def _report(self, client: httpx.AsyncClient, key: str, report: BaseModel) -> None:
        """Send a report; one that is not taken is due again at once."""
        body = report.model_dump_json().encode()
        headers = STANDARD_WEBHOOKS.sign(self._secrets()[:1], key, int(time()), body)
        with suppress(httpx.HTTPError):
            answer = await client.post(self._url, content=body, headers=headers)
            if answer.is_success:
                await self._ledger.write(lambda db: self._kind.mark_sent(db, key))


class Reporting:
    """The reports of the gateway and of the carrier; each is None where no address is set. Raises: SettingsError."""

    def __init__(self, ledger: Ledger, settings: ShopSettings) -> None:
        self.charges = self.parcels = None
        if settings.callback_url is not None:
            secrets = _secrets(settings, "gateway", "SHOP_CALLBACK_URL")
            self.charges = Callbacks(ledger, str(settings.callback_url), secrets, _CHARGES)
        elif settings.later:
            raise SettingsError("SHOP_LATER: charges that are only accepted are reported, so set SHOP_CALLBACK_URL too")
        if settings.carrier_callback_url is not None:
            secrets = _secrets(settings, "carrier", "SHOP_CARRIER_CALLBACK_URL")
            self.parcels = Callbacks(ledger, str(settings.carrier_callback_url), secrets, _PARCELS)
        elif settings.parcels_later:
            raise SettingsError(
                "SHOP_PARCELS_LATER: parcels that are fetched later are reported, so set SHOP_CARRIER_CALLBACK_URL too"
            )

    @asynccontextmanager
    async def lifespan(self, _app: FastAPI) -> AsyncIterator[None]:
        """Report as long as the server runs."""
        running = [asyncio.create_task(each.run()) for each in (self.charges, self.parcels) if each is not None]
        yield
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def _secrets(
    settings: ShopSettings, whose: Literal["gateway", "carrier"], address: str
) -> Callable[[], Sequence[SigningSecret]]:
    found = settings.signing_secrets(whose)
    if isinstance(found, SecretsFile):
        return found
    if not found:
        raise SettingsError(f"{address}: reports are signed, so set SHOP_{whose.upper()}_SECRETS too")
    return lambda: found


def _confirm(db: Database, key: str) -> Confirmed | NotConfirmed:
    """Let the customer confirm a charge, unless that is done, and return the report."""
    order_id, outcome, reason = db.execute(
        "SELECT order_id, outcome, reason FROM charges WHERE key = ?", (key,)
    ).fetchone()
    if outcome == "accepted":
        is_voided = db.execute("SELECT 1 FROM voids WHERE charge_key = ?", (key,)).fetchone()
        reason = "voided" if is_voided else reason
        outcome = "declined" if reason else "taken"
        db.execute(
            "UPDATE charges SET outcome = ?, reason = ?, at_ms = ? WHERE key = ?", (outcome, reason, now_ms(), key)
        )
    if outcome == "taken":
        return Confirmed(type="charge.confirmed", order_id=order_id, charge_key=key)
    return NotConfirmed(type="charge.declined", order_id=order_id, charge_key=key, reason=reason)


def _collect(db: Database, key: str) -> Collected | NotCollected:
    """Fetch a parcel, unless that is done, and return the report."""
    order_id, outcome, detail = db.execute(
        "SELECT order_id, outcome, detail FROM parcels WHERE key = ?", (key,)
    ).fetchone()
    if outcome in {"accepted", "booked"}:
        db.execute(
            "UPDATE parcels SET outcome = 'booked', at_ms = ? WHERE key = ? AND outcome = 'accepted'", (now_ms(), key)
        )
        return Collected(type="parcel.collected", order_id=order_id, booking_key=key, tracking=detail)
    reason = outcome if outcome == "recalled" else detail
    return NotCollected(type="parcel.refused", order_id=order_id, booking_key=key, reason=reason)


_CHARGES = Reports("callbacks", "charge_key", _confirm)
_PARCELS = Reports("collections", "parcel_key", _collect)
