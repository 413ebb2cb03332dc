"""A purchase: its transfer is requested, accepted by the bank at once, and confirmed or declined by a callback, or never."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, Protocol

from eventlib import FOREVER, Decider, Event, Meta, Retry, replace

WITHIN = timedelta(hours=1)
"""How long a customer has to confirm the transfer."""

AGAIN = timedelta(days=3)
"""For how long the bank repeats a callback that was not answered."""


class PurchaseSubmitted(Event, topic="purchase.requests", key="purchase_id", request=True):
    purchase_id: str
    amount_cents: int


class CancelSubmitted(Event, topic="purchase.requests", key="purchase_id", request=True):
    purchase_id: str


class TransferRequested(Event, topic="purchases", key="purchase_id"):
    purchase_id: str
    amount_cents: int


class TransferAccepted(Event, topic="purchases", key="purchase_id"):
    """The bank has the request, and reports later what came of it."""

    purchase_id: str


class TransferUncertain(Event, topic="purchases", key="purchase_id", failure=False):
    """The bank did not say whether it has the request; a callback may come all the same."""

    purchase_id: str


class TransferConfirmed(Event, topic="purchase.callbacks", key="purchase_id", request=True, once_for=AGAIN):
    """The bank reports that the money is there."""

    purchase_id: str


class TransferDeclined(
    Event, topic="purchase.callbacks", key="purchase_id", request=True, once_for=AGAIN, failure=True
):
    """The bank reports that no money will come."""

    purchase_id: str
    reason: str


class PurchasePaid(Event, topic="purchases", key="purchase_id", final=True):
    purchase_id: str


class VoidRequested(Event, topic="purchases", key="purchase_id"):
    """The bank is asked to return the money, if it came, and to take none from now on."""

    purchase_id: str
    transfer_key: str


class TransferVoided(Event, topic="purchases", key="purchase_id", reverses=TransferConfirmed):
    """The bank holds no money under the key, and will take none."""

    purchase_id: str


class PurchaseCancelled(Event, topic="purchases", key="purchase_id", final=True, failure=True):
    purchase_id: str


Stage = Literal["new", "transferring", "paid", "voiding", "cancelled"]


@dataclass(frozen=True)
class Purchase:
    stage: Stage = "new"
    transfer_key: str = ""
    asked_at: datetime | None = None
    ended_at: datetime | None = None


purchases = Decider("purchase", state=Purchase, key="purchase_id")


@purchases.evolve
def evolve(purchase: Purchase, event: Event, meta: Meta) -> Purchase:
    match event:
        case TransferRequested():
            return replace(purchase, stage="transferring", transfer_key=meta.id, asked_at=meta.recorded_at)
        case VoidRequested():
            return replace(purchase, stage="voiding")
        case PurchasePaid():
            return replace(purchase, stage="paid", ended_at=meta.recorded_at)
        case PurchaseCancelled():
            return replace(purchase, stage="cancelled", ended_at=meta.recorded_at)
        case _:
            return purchase


@purchases.on
def buy(purchase: Purchase, asked: PurchaseSubmitted) -> list[TransferRequested]:
    if purchase.stage != "new":
        return []
    return [TransferRequested(purchase_id=asked.purchase_id, amount_cents=asked.amount_cents)]


@purchases.on
def cancel(purchase: Purchase, asked: CancelSubmitted) -> list[VoidRequested]:
    """Cancel as long as nothing is paid; what is not known yet is not cancelled."""
    if purchase.stage != "transferring":
        return []
    return [VoidRequested(purchase_id=asked.purchase_id, transfer_key=purchase.transfer_key)]


@purchases.on
def confirmed(purchase: Purchase, transfer: TransferConfirmed) -> list[PurchasePaid]:
    """Take the money if it is still waited for; if it came too late, the void returns it."""
    return [PurchasePaid(purchase_id=transfer.purchase_id)] if purchase.stage == "transferring" else []


@purchases.on
def declined(purchase: Purchase, transfer: TransferDeclined) -> list[PurchaseCancelled]:
    return [PurchaseCancelled(purchase_id=transfer.purchase_id)] if purchase.stage == "transferring" else []


@purchases.on
def voided(_purchase: Purchase, transfer: TransferVoided) -> list[PurchaseCancelled]:
    return [PurchaseCancelled(purchase_id=transfer.purchase_id)]


purchases.follows(TransferAccepted, TransferUncertain)  # a callback, or the deadline, says what follows


@purchases.deadline
def confirmed_by(purchase: Purchase) -> datetime | None:
    waits = purchase.stage == "transferring"
    return purchase.asked_at + WITHIN if waits and purchase.asked_at else None


@confirmed_by.passed
def give_up(purchase: Purchase, meta: Meta) -> list[VoidRequested]:
    return [VoidRequested(purchase_id=meta.subject, transfer_key=purchase.transfer_key)]


@purchases.forget
def forgotten_at(purchase: Purchase) -> datetime | None:
    return None if purchase.ended_at is None else purchase.ended_at + timedelta(days=1)


class Bank(Protocol):
    """A bank that supports idempotency keys. Raises: OutcomeUnknown when it does not answer."""

    async def transfer(self, key: str, purchase_id: str, amount_cents: int) -> None:
        """Accept a request for money; what came of it is reported later."""

    async def void(self, key: str) -> None:
        """Return what was transferred under this key, and take no more."""


def uncertain(asked: TransferRequested) -> TransferUncertain:
    return TransferUncertain(purchase_id=asked.purchase_id)


@purchases.effect(
    TransferRequested,
    retry=Retry(attempts=5),
    otherwise=uncertain,
    awaits=(TransferConfirmed, TransferDeclined),
    within=confirmed_by,
)
async def transfer(asked: TransferRequested, bank: Bank, meta: Meta) -> TransferAccepted:
    await bank.transfer(meta.id, asked.purchase_id, asked.amount_cents)
    return TransferAccepted(purchase_id=asked.purchase_id)


@purchases.effect(VoidRequested, retry=FOREVER)
async def void(asked: VoidRequested, bank: Bank) -> TransferVoided:
    await bank.void(asked.transfer_key)
    return TransferVoided(purchase_id=asked.purchase_id)
