"""Invariants: declared once, refused where they make no sense, checked as events come, and forgotten with their key."""

from dataclasses import dataclass, replace
from typing import Never

import pytest

from eventlib import Decider, Event, Meta, WiringError
from eventlib.invariants import ExternalState, Fold, Invariant, InvariantChecker, invariant


class Paid(Event, topic="law.money", key="order_id"):
    order_id: str
    cents: int


class Returned(Event, topic="law.money", key="order_id"):
    order_id: str
    cents: int


class Noted(Event, topic="law.money", key="order_id"):
    order_id: str


class Opened(Event, topic="law.accounts", key="account"):
    account: str


@dataclass(frozen=True)
class Money:
    paid: int = 0
    returned: int = 0
    newest: str = ""


@dataclass(frozen=True)
class Booked:
    cents: int = 0


money = Fold("money", state=Money, key="order_id")
books = ExternalState("books", state=Booked, key="order_id")
tills = Decider("till", state=Booked, key="order_id")


@tills.on(Paid)
def note(_booked: Booked, _paid: Paid) -> list[Never]:
    return []


@money.evolve
def count(known: Money, event: Event, meta: Meta) -> Money:
    match event:
        case Paid(cents=cents):
            return replace(known, paid=known.paid + cents, newest=meta.id)
        case Returned(cents=cents):
            return replace(known, returned=known.returned + cents, newest=meta.id)
        case _:
            return known


@invariant(money)
def no_gifts(known: Money) -> bool:
    """Never is more returned
    than was paid.
    """
    return known.returned <= known.paid


@invariant(money, at_rest=True)
def all_goes_back(known: Money) -> bool:
    """In the end everything is returned."""
    return known.returned == known.paid


@invariant(tills)
def tills_are_not_empty(booked: Booked) -> bool:
    """A till never has less than nothing."""
    return booked.cents >= 0


@invariant(money, books, tills, at_rest=True)
def books_agree(known: Money, booked: Booked, till: Booked) -> bool:
    """The books and the till have what the log has."""
    return booked.cents == till.cents == known.paid - known.returned


INVARIANTS = (no_gifts, all_goes_back, tills_are_not_empty, books_agree)


def watch(*said: Event) -> tuple[InvariantChecker, list[str]]:
    made = InvariantChecker(INVARIANTS)
    found = [violation for n, event in enumerate(said) for violation in made.emitted(event, Meta(f"id-{n}"))]
    return made, [violation.invariant.name for violation in found]


def test_a_law_is_a_sentence_about_the_keys_of_its_sources() -> None:
    assert no_gifts == Invariant("no_gifts", "Never is more returned than was paid.", (money,), False, no_gifts.holds)
    assert books_agree.key == "order_id"


def test_a_law_for_every_moment_breaks_when_its_event_comes_and_for_its_key_only() -> None:
    made, broken = watch(Paid(order_id="1", cents=5), Returned(order_id="1", cents=5), Opened(account="x"))
    assert broken == []
    (violation,) = made.emitted(Returned(order_id="2", cents=1), Meta("z"))
    assert (violation.invariant, violation.key, violation.known) == (no_gifts, "2", (Money(returned=1, newest="z"),))
    assert str(violation).startswith("no_gifts: Never is more returned than was paid. Not so for order_id 2: Money(")


def test_a_law_is_not_checked_again_when_an_event_changes_nothing_that_it_is_about() -> None:
    made, broken = watch(Returned(order_id="1", cents=5), Noted(order_id="1"))
    assert broken == ["no_gifts"]
    (violation,) = made.emitted(Returned(order_id="1", cents=1), Meta("z"))
    assert violation.known == (Money(returned=6, newest="z"),)


def test_a_law_about_a_state_is_checked_when_the_state_changes() -> None:
    made, _ = watch()
    assert made.changed(tills, "1", Booked(3)) == []
    (violation,) = made.changed(tills, "1", Booked(-1))
    assert (violation.invariant, violation.known) == (tills_are_not_empty, (Booked(-1),))
    other = Decider("other", state=Booked, key="order_id")
    assert made.changed(other, "1", Booked(-1)) == []


def test_laws_of_rest_are_checked_at_rest_for_every_key_that_any_source_knows() -> None:
    made, _ = watch(Paid(order_id="1", cents=5), Paid(order_id="2", cents=2), Returned(order_id="2", cents=2))
    made.changed(tills, "1", Booked(5))
    assert [(b.invariant.name, b.key) for b in made.rest()] == [("all_goes_back", "1")], "nobody asked the books"
    told = {books: {"1": Booked(5), "3": Booked(7)}}
    assert [(b.invariant.name, b.key) for b in made.rest(told)] == [("all_goes_back", "1"), ("books_agree", "3")]


def test_a_forgotten_state_is_one_that_never_was() -> None:
    made, _ = watch()
    made.changed(tills, "1", Booked(5))
    assert [b.key for b in made.rest({books: {}})] == ["1"]
    made.changed(tills, "1", None)
    assert made.rest({books: {}}) == []


def test_a_key_that_has_settled_is_checked_once_more_and_forgotten() -> None:
    made, _ = watch(Paid(order_id="1", cents=5), Paid(order_id="2", cents=2))
    made.changed(tills, "1", Booked(5))
    assert len(made) == 3
    assert [(b.invariant.name, b.key) for b in made.settled("order_id", "1")] == [("all_goes_back", "1")]
    assert len(made) == 1
    assert made.settled("order_id", "1") == []


def test_what_a_fold_keeps_does_not_grow_with_its_events() -> None:
    made, _ = watch(*[Paid(order_id="1", cents=1) for _ in range(1_000)])
    assert len(made) == 1


def test_laws_that_could_not_be_checked_are_refused_where_they_are_declared() -> None:
    def silent(known: Money) -> bool:
        return bool(known)

    def vague(*known: object) -> bool:
        """Something holds."""
        return bool(known)

    with pytest.raises(WiringError, match="silent has no docstring"):
        invariant(money)(silent)
    with pytest.raises(WiringError, match=r"vague: what is known in several places agrees at rest only"):
        invariant(money, books, at_rest=False)(vague)
    with pytest.raises(WiringError, match="at rest only"):
        invariant(books)(vague)
    accounts = Fold("accounts", state=Money, key="account")
    with pytest.raises(WiringError, match=r"vague is about \['account', 'order_id'\]"):
        invariant(money, accounts, at_rest=True)(vague)
