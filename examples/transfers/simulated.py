"""The bank and its customers in the simulator, and what holds whatever its callbacks do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eventlib import Event, replace
from eventlib.invariants import ExternalState, ExternalStates, Fold, invariant
from eventlib.simulation import Choices, Scenario, SmallCase
from examples.transfers.purchases import (
    CancelSubmitted,
    PurchaseCancelled,
    PurchasePaid,
    PurchaseSubmitted,
    TransferConfirmed,
    TransferDeclined,
)


@dataclass(frozen=True)
class Story:
    """How a purchase went, by its events."""

    asked: bool = False
    paid: int = 0
    cancelled: int = 0


@dataclass(frozen=True)
class Account:
    """What the bank holds for a purchase."""

    held_cents: int = 0


story = Fold("story", state=Story, key="purchase_id")
accounts = ExternalState("bank", state=Account, key="purchase_id")


@story.evolve
def told(known: Story, event: Event) -> Story:
    """Count the ends."""
    match event:
        case PurchaseSubmitted():
            return replace(known, asked=True)
        case PurchasePaid():
            return replace(known, paid=known.paid + 1)
        case PurchaseCancelled():
            return replace(known, cancelled=known.cancelled + 1)
        case _:
            return known


@invariant(story)
def one_end(known: Story) -> bool:
    """Only one of both comes, and once: that a purchase is paid, or cancelled."""
    return known.paid + known.cancelled <= 1


@invariant(story, at_rest=True)
def an_end(known: Story) -> bool:
    """Come to an end: a purchase that was asked for is paid, or cancelled."""
    return not known.asked or known.paid + known.cancelled > 0


@invariant(story, accounts, at_rest=True)
def the_bank_agrees(known: Story, account: Account) -> bool:
    """Hold the money of a paid purchase, and of no other: so does the bank."""
    return (account.held_cents > 0) == (known.paid > 0)


INVARIANTS = (one_end, an_end, the_bank_agrees)


class SimulatedBank:
    """A bank that accepts every request, and decides on it at once; `reports` are its callbacks, by their ids."""

    def __init__(self, choose: Choices) -> None:
        self._choose = choose
        self.held: dict[str, tuple[str, int]] = {}
        self.voided: set[str] = set()
        self.reports: dict[str, Event] = {}

    async def transfer(self, key: str, purchase_id: str, amount_cents: int) -> None:
        """Take the money, or none; what came of it is reported."""
        if key in self.voided or key in self.reports:
            return
        if self._choose.whether("the customer declines", 25):
            self.reports[key] = TransferDeclined(purchase_id=purchase_id, reason="declined")
            return
        self.held[key] = (purchase_id, amount_cents)
        self.reports[key] = TransferConfirmed(purchase_id=purchase_id)

    async def void(self, key: str) -> None:
        """Return the money, and take no more."""
        self.voided.add(key)
        self.held.pop(key, None)


class TransferScenario(Scenario):
    """Purchases, some of which are cancelled."""

    def requests(self, orders: int, choose: Choices) -> Sequence[Event]:
        """Return purchases, and their cancellations."""
        asked: list[Event] = []
        for number in range(1, orders + 1):
            asked.append(PurchaseSubmitted(purchase_id=f"P{number}", amount_cents=100))
            if choose.whether("it is cancelled", 40):
                asked.append(CancelSubmitted(purchase_id=f"P{number}"))
        return asked

    def ports(self, choose: Choices) -> Mapping[str, object]:
        """Return the bank."""
        return {"bank": SimulatedBank(choose)}

    def callbacks(self, ports: Mapping[str, object]) -> Mapping[str, Event]:
        """Return what the bank reports."""
        return bank_of(ports).reports

    def small_case(self) -> SmallCase:
        """Return a purchase, and its cancellation."""
        return SmallCase(
            requests=[PurchaseSubmitted(purchase_id="P1", amount_cents=100), CancelSubmitted(purchase_id="P1")]
        )

    def facts(self, ports: Mapping[str, object]) -> ExternalStates:
        """Return the bank's accounts."""
        return {accounts: {purchase_id: Account(cents) for purchase_id, cents in bank_of(ports).held.values()}}


def bank_of(ports: Mapping[str, object]) -> SimulatedBank:
    """Return the bank of a scenario."""
    bank = ports["bank"]
    assert isinstance(bank, SimulatedBank)  # noqa: S101  see `ports`
    return bank
