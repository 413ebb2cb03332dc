"""A decider: state = evolve(state, input); said = handler(state, input); state = evolve(state, each said)."""

from datetime import UTC, datetime, timedelta

import pytest

from eventlib import Decider
from eventlib.errors import ContractError
from eventlib.testing import given
from services import shop
from tests.apps.bank import Account, Closed, Credited, Deposited, Stated, accounts

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def test_the_handler_sees_the_state_after_its_input_and_evolve_sees_what_was_said() -> None:
    given(accounts, Deposited(account="a", cents=5)).when(Deposited(account="a", cents=2)).then(
        Credited(account="a", total_cents=7)
    ).then_state(cents=7, credited=1)


def test_none_forgets_the_key() -> None:
    given(accounts, Deposited(account="a", cents=5)).when(Closed(account="a")).then(Stated(account="a")).then_state(
        cents=0
    )


def test_none_from_an_evolve_that_does_not_announce_it_loses_no_state() -> None:
    counts = Decider("count", state=Account, key="account")
    replies: list[Account] = [Account(cents=3)]
    counts.evolve(lambda _account, event: replies[0] if isinstance(event, Deposited) else None)

    @counts.on
    def count(account: Account, event: Deposited) -> list[Credited]:
        return [Credited(account=event.account, total_cents=account.cents)]

    counts.follows(Closed)
    sentence = (
        "returned None for {}, and the key's state would be lost: .* annotate count.<lambda> with `-> Account | None`"
    )
    with pytest.raises(ContractError, match=sentence.format("Closed")):
        given(counts).when(Closed(account="a"))
    with pytest.raises(ContractError, match=sentence.format("Credited")):
        given(counts).when(Deposited(account="a", cents=3))
    with pytest.raises(ContractError, match=sentence.format("Closed")):
        given(counts, Closed(account="a"))


def test_a_deadline_follows_from_the_state_and_says_what_its_handler_says() -> None:
    opened = given(accounts, Deposited(account="a", cents=5), at=NOON)
    assert accounts.due(opened.state) == {"stated_at": NOON + timedelta(days=1)}
    opened.when_passed("stated_at").then(Stated(account="a"))


def test_a_deadline_that_is_not_due_cannot_pass() -> None:
    with pytest.raises(AssertionError, match="deadline stated_at is not due"):
        given(accounts).when_passed("stated_at")


def test_what_is_not_in_the_annotation_cannot_be_said() -> None:
    decider = Decider("liar", state=Account, key="account")

    @decider.on(Deposited)
    def lie(_account: Account, event: Deposited) -> list[Credited]:
        return [Closed(account=event.account)]  # type: ignore[list-item]  # the mistake under test

    with pytest.raises(ContractError, match=r"liar.lie emitted Closed, which is not in its return type; add it there"):
        given(decider).when(Deposited(account="a", cents=1))


def test_a_failed_expectation_shows_both_sides() -> None:
    with pytest.raises(AssertionError, match=r"expected to be emitted:\n  nothing\nbut was emitted:\n  Credited"):
        given(accounts).when(Deposited(account="a", cents=1)).then()


def test_time_passes_only_when_the_test_says_so() -> None:
    given(accounts).on(NOON).when(Deposited(account="a", cents=1)).then_state(opened_at=NOON)


def test_a_decider_names_the_modules_that_decide_what_it_does() -> None:
    order = shop.decider("order")
    assert order.modules >= {"services.order.decider", "services.order.evolve", "services.order.state"}
    assert order.modules >= {"services.order.events", "services.payment.events"}
