"""Payouts through a bank that allows so many transfers a second: customers take turns, and recalls go first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Never, Protocol

from eventlib import FOREVER, Choreography, Decider, Event, Meta, Retry, Service
from eventlib.limits import Limit
from eventlib.simulation import Choices, Scenario


class PayoutSubmitted(Event, topic="payout.requests", key="payout_id", request=True):
    payout_id: str
    customer_id: str
    amount_cents: int


class TransferRequested(Event, topic="payouts", key="payout_id"):
    payout_id: str
    customer_id: str
    amount_cents: int


class TransferMade(Event, topic="payouts", key="payout_id", final=True):
    payout_id: str


class TransferUnanswered(Event, topic="payouts", key="payout_id"):
    payout_id: str
    customer_id: str


class RecallRequested(Event, topic="payouts", key="payout_id"):
    payout_id: str
    customer_id: str


class TransferRecalled(Event, topic="payouts", key="payout_id", final=True, failure=True):
    payout_id: str


@dataclass(frozen=True)
class Payout:
    status: str = ""


class Bank(Protocol):
    async def transfer(self, payout_id: str, amount_cents: int) -> None:
        """Make a transfer once."""
        ...

    async def recall(self, payout_id: str) -> None:
        """Take a transfer back, or see to it that it is never made."""
        ...


payouts = Decider("payout", state=Payout, key="payout_id")


@payouts.evolve
def evolve(payout: Payout, event: Event) -> Payout:
    match event:
        case TransferMade():
            return replace(payout, status="made")
        case TransferRecalled():
            return replace(payout, status="recalled")
        case _:
            return payout


@payouts.on
def submit(_payout: Payout, asked: PayoutSubmitted) -> list[TransferRequested]:
    return [
        TransferRequested(payout_id=asked.payout_id, customer_id=asked.customer_id, amount_cents=asked.amount_cents)
    ]


@payouts.on
def undo(_payout: Payout, unknown: TransferUnanswered) -> list[RecallRequested]:
    return [RecallRequested(payout_id=unknown.payout_id, customer_id=unknown.customer_id)]


@payouts.on
def finish(_payout: Payout, _answer: TransferMade | TransferRecalled) -> list[Never]:
    return []


def unanswered(asked: TransferRequested) -> TransferUnanswered:
    return TransferUnanswered(payout_id=asked.payout_id, customer_id=asked.customer_id)


@payouts.effect(TransferRequested, retry=Retry(attempts=3), otherwise=unanswered)
async def transfer(asked: TransferRequested, bank: Bank) -> TransferMade:
    await bank.transfer(asked.payout_id, asked.amount_cents)
    return TransferMade(payout_id=asked.payout_id)


@payouts.effect(RecallRequested, retry=FOREVER)
async def recall(asked: RecallRequested, bank: Bank, _meta: Meta) -> TransferRecalled:
    await bank.recall(asked.payout_id)
    return TransferRecalled(payout_id=asked.payout_id)


service = Service(
    "payout",
    deciders=[payouts],
    limits={
        "bank": Limit(per_second=50, burst=8, concurrent=16, key="customer_id"),
        RecallRequested: Limit(priority=3),
    },
)
desk = Choreography("desk", [service], facts=[PayoutSubmitted])


class SimulatedBank:
    """A bank that makes each transfer once, and none that was recalled."""

    def __init__(self) -> None:
        self.made = dict[str, int]()
        self.recalled = set[str]()

    async def transfer(self, payout_id: str, amount_cents: int) -> None:
        """See `Bank`."""
        if payout_id not in self.recalled:
            self.made.setdefault(payout_id, amount_cents)

    async def recall(self, payout_id: str) -> None:
        """See `Bank`."""
        self.recalled.add(payout_id)
        self.made.pop(payout_id, None)


class PayoutScenario(Scenario):
    """One customer with many payouts, and others with one each."""

    def requests(self, orders: int, choose: Choices) -> Sequence[Event]:
        """See `Scenario`."""
        large = choose.between("payouts of the large customer", 3, 12)
        customers = ["large"] * large * orders + [f"small {number}" for number in range(2 * orders)]
        return [
            PayoutSubmitted(payout_id=str(number), customer_id=customer, amount_cents=100)
            for number, customer in enumerate(customers)
        ]

    def ports(self, choose: Choices) -> Mapping[str, object]:  # noqa: ARG002  this bank has no moods
        """See `Scenario`."""
        return {"bank": SimulatedBank()}
