"""A bank: what is deposited is credited; an account is stated a day after it was opened, or when it closes and is forgotten."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from eventlib import Choreography, Decider, Event, Meta, Service, Topic
from eventlib.external import Json


class Deposited(Event, topic=Topic("deposits", partitions=1), key="account", request=True):
    account: str
    cents: int


class RateSet(Event, topic=Topic("rates", partitions=1), key="account", external=Json()):
    account: str


class Closed(Event, topic=Topic("closings", partitions=1), key="account", request=True):
    account: str


class Credited(Event, topic=Topic("credits", partitions=1), key="account"):
    account: str
    total_cents: int


class Stated(Event, topic=Topic("statements", partitions=1), key="account", final=True):
    account: str


@dataclass(frozen=True)
class Account:
    cents: int = 0
    credited: int = 0
    opened_at: datetime | None = None


accounts = Decider("account", state=Account, key="account")


@accounts.evolve
def book(account: Account, event: Event, meta: Meta) -> Account | None:
    match event:
        case Deposited(cents=cents):
            return replace(account, cents=account.cents + cents, opened_at=account.opened_at or meta.recorded_at)
        case Credited():
            return replace(account, credited=account.credited + 1)
        case Closed():
            return None
        case _:
            return account


@accounts.on
def credit(account: Account, deposited: Deposited) -> list[Credited]:
    if deposited.cents < 0:
        raise ValueError("a deposit is above zero")
    return [Credited(account=deposited.account, total_cents=account.cents)]


@accounts.on
def close(_account: Account, closed: Closed) -> list[Stated]:
    return [Stated(account=closed.account)]


accounts.follows(RateSet)


@accounts.deadline
def stated_at(account: Account) -> datetime | None:
    return account.opened_at and account.opened_at + timedelta(days=1)


@stated_at.passed
def state(_account: Account, meta: Meta) -> list[Stated]:
    return [Stated(account=meta.subject)]


APP = Choreography("bank", [Service("bank", deciders=[accounts])])
