"""What `eventlib check` finds: a small planted choreography for each finding, and the same one mended."""

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from eventlib import Choreography, Decider, Event, Service
from eventlib.analysis.checks import check
from eventlib.limits import Limit
from eventlib.model.finding import Accepted
from examples import loyalty
from services import shop
from tests.apps.planted import (
    ORDER,
    REFUNDING,
    RELEASING,
    TWICE,
    Cancelled,
    ChargeRequested,
    Declined,
    Done,
    Paid,
    Placed,
    Refunded,
    RefundRequested,
    Rejected,
    Released,
    Reserved,
    Sent,
    Submitted,
    Unknown,
    found,
    saying,
    the,
)
from tests.apps.wired import Asks, Emits, Wired, choreography, decider


@pytest.mark.parametrize("clean", [shop, loyalty.app], ids=lambda each: each.name)
def test_the_shop_and_its_fifth_service_are_clean(clean: Choreography) -> None:
    assert check(clean) == []


def test_what_nobody_says_and_what_nobody_handles() -> None:
    planted = choreography(order={Placed: [Reserved]})
    assert found(planted) == {("handler-without-source", "Placed"), ("event-without-handler", "Reserved")}
    assert the(planted, "handler-without-source").where == "order/order.on_Placed"
    assert found(choreography(order={Submitted: [Done]})) == set()


def test_events_that_only_lead_to_each_other() -> None:
    planted = choreography(order={Submitted: [Done]}, stock={Placed: [Reserved]}, payment={Reserved: [Placed]})
    assert ("event-out-of-reach", "Placed") in found(planted)
    begun = choreography(order={Submitted: [Done, Placed]}, stock={Placed: [Reserved]}, payment={Reserved: [Placed]})
    assert ("event-out-of-reach", "Placed") not in found(begun)


def test_what_only_a_deadline_begins_is_within_reach() -> None:
    planted = choreography(order=Wired({Submitted: []}, overdue=[Placed]), stock={Placed: [Done]})
    assert found(planted) == set()


def test_an_effect_that_nobody_asks_for() -> None:
    planted = choreography(payment=Wired({Submitted: []}, {ChargeRequested: Asks([Done])}))
    assert found(planted) == {("effect-never-requested", "ChargeRequested")}
    asked = choreography(payment=Wired({Submitted: [ChargeRequested]}, {ChargeRequested: Asks([Done])}))
    assert found(asked) == set()


def test_a_deadline_after_which_nothing_happens() -> None:
    made = decider("order", Wired({Submitted: [Done]}))

    @made.deadline
    def late(_state: object) -> datetime | None:
        return None

    planted = Choreography("planted", [Service("order", deciders=[made])])
    assert found(planted) == {("deadline-without-handler", "order.late")}


def test_a_key_that_is_no_text_of_its_own() -> None:
    class Loose(Event, topic="loose", key="order_id", request=True):
        order_id: str | None

    class Exact(Event, topic="exact", key="order_id", request=True):
        order_id: float

    planted = choreography(order={Loose: [Done], Exact: [Done]})
    assert found(planted) == {("key-without-text", "Loose.order_id"), ("key-without-text", "Exact.order_id")}
    assert "may be None" in check(planted)[0].what


def test_an_effect_that_gives_up_and_says_nothing() -> None:
    def paying(asks: Asks) -> Choreography:
        return choreography(payment=Wired({Submitted: [ChargeRequested]}, {ChargeRequested: asks}))

    planted = paying(Asks([Done], TWICE))
    assert found(planted) == {("effect-gives-up", "ChargeRequested")}
    assert check(planted)[0].severity == "warning"
    assert found(paying(Asks([Done]))) == set()
    assert found(paying(Asks([Done], TWICE, otherwise=Done))) == set()


def test_a_port_that_one_service_limits_and_another_does_not() -> None:
    def paying(*limited: str) -> Choreography:
        asking = {
            "payment": decider(
                "payment", Wired({Submitted: [ChargeRequested]}, {ChargeRequested: Asks([Paid], port=True)})
            ),
            "refund": decider(
                "refund", Wired({Paid: [RefundRequested]}, {RefundRequested: Asks([Refunded], port=True)})
            ),
        }
        limits: dict[str, dict[str | type[Event], Limit]] = {
            name: {"port": Limit(per_second=5)} if name in limited else {} for name in asking
        }
        return Choreography(
            "planted", [Service(name, deciders=[made], limits=limits[name]) for name, made in asking.items()]
        )

    planted = the(paying("payment"), "port-partly-limited")
    assert planted.subject == "refund: port"
    assert "which payment limits" in planted.what
    assert ("port-partly-limited", "refund: port") not in found(paying("payment", "refund"))


def test_a_compensation_that_gives_up_is_an_error() -> None:
    refund = Wired({Submitted: [Paid], Paid: [RefundRequested]}, {RefundRequested: Asks([Refunded], TWICE)})
    assert the(choreography(payment=refund), "effect-gives-up").severity == "error"


def test_answers_that_do_not_say_which_is_the_failure() -> None:
    def paying(*answers: type[Event]) -> Choreography:
        asks = {ChargeRequested: Asks(answers)}
        return choreography(payment=Wired({Submitted: [ChargeRequested], Paid: [], Declined: [], Sent: []}, asks))

    assert ("failure-undeclared", "ChargeRequested") in found(paying(Paid, Sent))
    assert ("failure-undeclared", "ChargeRequested") not in found(paying(Paid, Declined))


def test_a_wait_that_no_deadline_ends() -> None:
    patient = choreography(order={Submitted: [Placed], Reserved: [Done]}, stock={Placed: [Reserved]})
    assert found(patient) == {("wait-without-deadline", "order")}
    assert "after Submitted, order may wait for Reserved" in check(patient)[0].what
    waits: Emits = {Submitted: [Placed], Reserved: [Done]}
    own = choreography(order=Wired(waits, overdue=[Done]), stock={Placed: [Reserved]})
    assert found(own) == set()


def test_a_deadline_elsewhere_ends_the_waits_that_it_leads_to() -> None:
    order = replace(saying(ORDER, {Paid: [Done]}), overdue=[Cancelled])
    stock, payment = replace(RELEASING, overdue=None), replace(REFUNDING, overdue=None)
    assert found(choreography(order=order, stock=stock, payment=payment)) == set()
    deaf = replace(stock, emits={Placed: [Reserved, Rejected], Declined: [Released], Rejected: []})
    planted = choreography(order=order, stock=deaf, payment=payment)
    assert ("wait-without-deadline", "stock") in found(planted)


def test_an_effect_with_an_end_is_no_wait() -> None:
    asks = {ChargeRequested: Asks([Paid, Declined], TWICE, otherwise=Unknown)}
    pay = Wired({Submitted: [ChargeRequested], Paid: [Done], Declined: [], Unknown: [Refunded]}, asks)
    assert found(choreography(payment=pay)) == set()
    forever = replace(pay, asks={ChargeRequested: Asks([Paid, Declined, Unknown])})
    assert found(choreography(payment=forever)) == {("wait-without-deadline", "payment")}


def test_a_ring_of_events() -> None:
    pay = Wired({Submitted: [ChargeRequested], Declined: [ChargeRequested], Paid: [Done]}, overdue=[Done])
    again = replace(pay, asks={ChargeRequested: Asks([Paid, Declined])})
    planted = choreography(payment=again)
    assert found(planted) == {("ring", "ChargeRequested")}
    finding = check(planted)[0]
    assert (finding.severity, finding.where) == ("warning", "payment/payment.on_Declined, payment/payment.ask")
    assert "Declined → ChargeRequested → Declined" in finding.what
    assert found(choreography(payment=replace(again, emits={**again.emits, Declined: []}))) == set()


def test_a_ring_that_a_deadline_closes_waits() -> None:
    planted = choreography(order=Wired({Submitted: [Placed], Placed: []}, overdue=[Placed]))
    assert found(planted) == set()


def test_what_is_accepted_stays_in_sight_and_counts_no_more() -> None:
    made = choreography(order={Placed: [Done]})
    reason = "another company says it"
    accepting = made.extended("accepting", accepts=[Accepted("handler-without-source", "Placed", reason)])
    (finding,) = check(accepting)
    assert finding.accepted == reason
    assert found(accepting) == set()
    (finding,) = check(accepting.extended("again"))
    assert finding.accepted == reason


def test_what_is_accepted_for_nothing_is_a_finding() -> None:
    made = choreography(order={Submitted: [Done]})
    accepting = made.extended("accepting", accepts=[Accepted("ring", "Placed", "it ends")])
    assert found(accepting) == {("accepted-for-nothing", "ring: Placed")}


def test_errors_come_first_and_what_is_accepted_last() -> None:
    planted = choreography(order={Placed: [Reserved], Submitted: [ChargeRequested], Reserved: [Placed]})
    accepted = planted.extended("x", accepts=[Accepted("event-without-handler", "ChargeRequested", "for now")])
    order = [(finding.accepted is not None, finding.severity) for finding in check(accepted)]
    assert order == sorted(order, key=lambda each: (each[0], each[1] != "error"))
    assert len(order) > 2


@pytest.mark.parametrize("event", [Cancelled, Declined])
def test_without_declarations_a_failure_is_none(event: type[Event]) -> None:
    made = Choreography("declared", [Service("order", deciders=[listening(event)])])
    assert event in made.failures
    assert Unknown not in made.failures


def listening(event: type[Event]) -> Decider[Any]:
    return decider("order", Wired({event: [Done]}))
