"""Steps that stay done: each way in which a failure can come, planted, and the same choreography mended."""

from dataclasses import dataclass, replace

from eventlib import Event
from eventlib.analysis.checks import check
from tests.apps.planted import (
    CANCELLABLE,
    ORDER,
    PAYMENT,
    REFUNDING,
    RELEASING,
    STOCK,
    TWICE,
    Cancelled,
    CancelSubmitted,
    ChargeRequested,
    Declined,
    Done,
    Lost,
    Order,
    Paid,
    Placed,
    Refunded,
    RefundRefused,
    RefundRequested,
    Rejected,
    Released,
    Reserved,
    SendRequested,
    Sent,
    Submitted,
    Unknown,
    found,
    saying,
    the,
    without,
)
from tests.apps.wired import Asks, Emits, Wired, choreography


def test_a_step_that_nothing_undoes() -> None:
    stock = Wired({Placed: [Sent, Rejected], Rejected: [Done], Declined: [Done]}, overdue=[Done])
    payment = replace(PAYMENT, emits={Sent: [ChargeRequested]})
    planted = choreography(order=ORDER, stock=stock, payment=payment)
    finding = the(planted, "step-without-compensation")
    assert (finding.subject, finding.severity) == ("Sent", "warning")
    assert "Sent → ChargeRequested → Declined" in finding.what
    assert "reverses=Sent" in finding.remedy


def test_an_effects_answer_that_nothing_undoes_is_an_error() -> None:
    pay = Wired({Submitted: [ChargeRequested], Sent: []}, {ChargeRequested: Asks([Sent, Declined])}, overdue=[Done])
    planted = choreography(payment=pay, parcels={Sent: [Done, Lost], Lost: [], Declined: []})
    finding = the(planted, "step-without-compensation")
    assert (finding.subject, finding.severity) == ("Sent", "error")


def test_a_failure_that_leads_to_no_compensation() -> None:
    clean = choreography(order=ORDER, stock=STOCK, payment=PAYMENT)
    assert found(clean) == set()
    planted = choreography(order=CANCELLABLE, stock=without(RELEASING, Declined), payment=REFUNDING)
    assert found(planted) == {("compensation-out-of-reach", "Reserved, Declined")}
    assert "Reserved → ChargeRequested → Declined" in check(planted)[0].what
    assert check(planted)[0].severity == "error"


def test_what_undoes_its_own_step_is_a_failure_for_all_before_it() -> None:
    class Recalled(Order, topic="parcels", key="order_id", failure=True, reverses=Sent): ...

    asks = {SendRequested: Asks([Sent, Recalled], TWICE, otherwise=Unknown)}
    parcels = Wired({Paid: [SendRequested], Unknown: [Recalled]}, asks, overdue=[Done])
    order = saying(ORDER, {Sent: [Done]})
    payment = replace(REFUNDING, emits={Reserved: [ChargeRequested], Recalled: [RefundRequested]})
    stock = saying(STOCK, {Recalled: [Released]})
    assert found(choreography(order=order, stock=stock, payment=payment, parcels=parcels)) == set()
    held = choreography(order=order, stock=without(stock, Recalled), payment=payment, parcels=parcels)
    assert ("compensation-out-of-reach", "Reserved, Recalled") in found(held)


def test_a_deadline_is_no_way_to_a_compensation() -> None:
    order = replace(ORDER, overdue=[Cancelled])
    stock = saying(without(STOCK, Declined), {Cancelled: [Released]})
    planted = choreography(order=order, stock=stock, payment=PAYMENT)
    assert ("compensation-out-of-reach", "Reserved, Declined") in found(planted)


def test_an_unknown_outcome_counts_as_done_and_as_failed() -> None:
    asks = {ChargeRequested: Asks([Paid, Declined], TWICE, otherwise=Unknown), RefundRequested: Asks([Refunded])}
    emits: Emits = {Reserved: [ChargeRequested], Unknown: [RefundRequested]}
    payment = Wired(emits, asks, overdue=[Done])
    order = saying(ORDER, {Paid: [Done]})
    stock = saying(STOCK, {Unknown: [Released]})
    clean = choreography(order=order, stock=stock, payment=payment)
    assert found(clean) == set()
    kept = saying(payment, {Unknown: []})
    assert ("compensation-out-of-reach", "Paid, Unknown") in found(choreography(order=order, stock=stock, payment=kept))
    held = choreography(order=order, stock=saying(stock, {Unknown: []}), payment=payment)
    assert found(held) == {("compensation-out-of-reach", "Reserved, Unknown")}


def test_a_compensation_that_may_be_refused() -> None:
    asks = {ChargeRequested: Asks([Paid, Declined]), RefundRequested: Asks([Refunded, RefundRefused])}
    payment = Wired({Submitted: [ChargeRequested], Lost: [RefundRequested]}, asks, overdue=[Done])
    planted = choreography(payment=payment, parcels={Paid: [Done, Lost], Declined: []})
    assert found(planted) == {("compensation-out-of-reach", "Paid, RefundRefused")}


def test_a_cancellation_may_come_at_any_time() -> None:
    clean = choreography(order=CANCELLABLE, stock=RELEASING, payment=REFUNDING)
    assert found(clean) == set()
    kept = saying(REFUNDING, {Cancelled: []})
    planted = choreography(order=CANCELLABLE, stock=RELEASING, payment=kept)
    assert found(planted) == {("compensation-out-of-reach", "Paid, Cancelled")}
    assert "at any time: CancelSubmitted → Cancelled" in check(planted)[0].what


def test_a_deadline_may_pass_at_any_time() -> None:
    order = replace(saying(ORDER, {Paid: [Done]}), overdue=[Cancelled])
    assert found(choreography(order=order, stock=RELEASING, payment=REFUNDING)) == set()
    planted = choreography(order=order, stock=STOCK, payment=REFUNDING)
    assert ("compensation-out-of-reach", "Reserved, Cancelled") in found(planted)
    assert "order.overdue_at → Cancelled" in the(planted, "compensation-out-of-reach").what


def test_an_answer_that_comes_after_the_cancellation() -> None:
    kept = saying(REFUNDING, {Paid: []})
    planted = choreography(order=CANCELLABLE, stock=RELEASING, payment=kept)
    assert found(planted) == {("late-step", "Paid")}


def test_a_decider_that_says_both_knows_of_both() -> None:
    parcels = Wired({Paid: [SendRequested], CancelSubmitted: [Cancelled]}, {SendRequested: Asks([Sent, Lost])})
    order = Wired({Submitted: [Placed], Sent: [Done], Declined: []}, overdue=[Done])
    payment = saying(REFUNDING, {Lost: [RefundRequested]})
    stock = saying(RELEASING, {Lost: [Released]})
    planted = choreography(order=order, stock=stock, payment=payment, parcels=replace(parcels, overdue=[Done]))
    assert found(planted) == set()  # Sent has no compensation, and needs none: only its own decider can cancel then


def test_two_services_that_act_side_by_side() -> None:
    payment = Wired(
        {Placed: [ChargeRequested], Rejected: [RefundRequested], Paid: [RefundRequested]},
        {ChargeRequested: Asks([Paid, Declined]), RefundRequested: Asks([Refunded])},
        overdue=[Done],
    )
    order = saying(ORDER, {Paid: [Done], Reserved: [Done], Rejected: []})
    clean = choreography(order=order, stock=STOCK, payment=payment)
    assert found(clean) == set()
    held = choreography(order=order, stock=saying(STOCK, {Declined: [], Refunded: [Released]}), payment=payment)
    assert found(held) == {("compensation-out-of-reach", "Reserved, Declined")}
    kept = choreography(order=order, stock=STOCK, payment=saying(payment, {Rejected: []}))
    assert found(kept) == {("compensation-out-of-reach", "Paid, Rejected")}
    late = choreography(order=order, stock=STOCK, payment=saying(payment, {Paid: []}))
    assert found(late) == {("late-step", "Paid")}


def test_what_one_handler_may_say_in_one_breath_is_a_warning() -> None:
    order = Wired(
        {Submitted: [Placed, SendRequested], Paid: [Done], Sent: [Done], Declined: [], Lost: []},
        {SendRequested: Asks([Sent, Lost])},
        overdue=[Done],
    )
    payment = replace(REFUNDING, emits={Placed: [ChargeRequested], Paid: [RefundRequested]})
    finding = the(choreography(order=order, payment=payment), "compensation-out-of-reach")
    assert (finding.subject, finding.severity) == ("Paid, Lost", "warning")
    assert "if order.on_Submitted emits both" in finding.what


class LineRequested(Event, topic="lines", key="sku"):
    sku: str
    order_id: str


class LineReserved(Order, topic="stock.lines", key="order_id"): ...


class LineRefused(Order, topic="stock.lines", key="order_id", failure=True): ...


class LineReleaseRequested(LineRequested, topic="lines", key="sku"): ...


class LineReleased(Order, topic="stock.lines", key="order_id", reverses=LineReserved): ...


@dataclass(frozen=True)
class Line:
    sku: str


@dataclass(frozen=True)
class Lines:
    lines: tuple[Line, ...] = ()


SHELF = Wired({LineRequested: [LineReserved, LineRefused], LineReleaseRequested: [LineReleased]}, key="sku")
JOIN = Wired(
    {
        Submitted: [LineRequested],
        LineReserved: [Done, LineReleaseRequested],
        LineRefused: [LineReleaseRequested],
        LineReleased: [],
    },
    overdue=[Done],
    state=Lines,
)


def test_one_of_several_parts_may_be_refused() -> None:
    assert found(choreography(join=JOIN, shelf=SHELF)) == {("wait-without-deadline", "shelf")}
    planted = choreography(join=saying(JOIN, {LineRefused: []}), shelf=SHELF)
    assert ("compensation-out-of-reach", "LineReserved, LineRefused") in found(planted)
    late = choreography(join=saying(JOIN, {LineReserved: [Done]}), shelf=SHELF)
    assert ("late-step", "LineReserved") in found(late)


def test_a_single_part_is_reserved_or_refused() -> None:
    @dataclass(frozen=True)
    class OneLine:
        sku: str = ""

    planted = choreography(join=replace(saying(JOIN, {LineRefused: []}), state=OneLine), shelf=SHELF)
    assert ("compensation-out-of-reach", "LineReserved, LineRefused") not in found(planted)


def test_an_unknown_outcome_that_is_guessed() -> None:
    asks = {ChargeRequested: Asks([Paid, Declined], TWICE, otherwise=Declined)}
    pay = Wired({Submitted: [ChargeRequested], Paid: [Done], Declined: []}, asks)
    finding = the(choreography(payment=pay), "step-without-compensation")
    assert (finding.subject, finding.severity) == ("Paid", "error")
    assert "ask may have done it, and not know" in finding.what


def test_a_request_of_an_effect_is_no_step_since_its_answers_are() -> None:
    def parcels(asks: dict[type[Event], Asks]) -> Wired:
        return Wired({Placed: [SendRequested, Rejected], Sent: [], Rejected: [], Declined: []}, asks, overdue=[Done])

    steps = found(choreography(order=ORDER, parcels=parcels({SendRequested: Asks([Sent, Declined])})))
    assert ("step-without-compensation", "SendRequested") not in steps
    handled = choreography(order=ORDER, parcels=parcels({}), others={SendRequested: [Declined]})
    assert ("step-without-compensation", "SendRequested") in found(handled)
