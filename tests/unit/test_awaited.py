"""What an effect awaits: how it is declared, what `check` and the graph show of it, and for how long an id is remembered."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import pytest

from eventlib import Choreography, Decider, Event, Meta, Service, WiringError
from eventlib.analysis.checks import check
from eventlib.analysis.diagram.building import effect_id, picture
from eventlib.model.record import Record
from eventlib.publication import Publication
from eventlib.runtime.awaited import CAME, LATE, OVER, TWICE, Await, outcome_of
from eventlib.runtime.keyed_state import KeyedState, KeyMetadata
from eventlib.simulation.exhaustive.tasks import Made, Tasks
from eventlib.simulation.stage import BEGIN_MS, Stage
from examples.transfers import app
from examples.transfers.purchases import (
    TransferConfirmed,
    TransferDeclined,
    TransferRequested,
    purchases,
)
from tests.apps.planted import Order, Paid
from tests.apps.wired import Nothing

DAY_MS = 86_400_000


class Reported(Order, topic="reports", key="order_id", request=True, once_for=timedelta(days=3)):
    what: str = "paid"


class Noted(Order, topic="notes", key="order_id", final=True): ...


@dataclass(frozen=True)
class Count:
    noted: int = 0
    at: datetime | None = None


class PayRequested(Order, topic="payments", key="order_id"): ...


class Foreign(Event, topic="customers", key="customer_id", request=True):
    customer_id: str


def asking(**options: object) -> Decider[Nothing]:
    made = Decider("payment", state=Nothing, key="order_id")

    @made.on
    def pay(_state: Nothing, _event: Reported) -> list[PayRequested]:
        return []

    @made.effect(PayRequested, **options)  # type: ignore[arg-type]  # each test's own
    async def ask(event: PayRequested) -> Paid:
        return Paid(order_id=event.order_id)

    made.follows(Paid)
    return made


def found_in(decider: Decider[Nothing]) -> set[tuple[str, str]]:
    app = Choreography("asking", [Service("payment", deciders=[decider])])
    return {(finding.rule, finding.subject) for finding in check(app) if finding.rule.startswith("awaited")}


def test_what_is_awaited_without_a_deadline_is_refused_by_the_check() -> None:
    assert found_in(asking(awaits=Reported)) == {("awaited-without-deadline", "PayRequested")}


def test_what_is_awaited_and_not_handled_is_refused_by_the_check() -> None:
    class Other(Order, topic="other.reports", key="order_id", request=True): ...

    expected = {("awaited-without-deadline", "PayRequested"), ("awaited-without-handler", "Other")}
    assert found_in(asking(awaits=(Reported, Other))) == expected


def test_what_is_not_awaited_needs_no_deadline() -> None:
    assert found_in(asking()) == set()


@pytest.mark.parametrize(
    ("awaits", "reason"),
    [(Paid, "declare it with request=True"), (Foreign, "has key 'customer_id'"), ("Paid", "is not an event")],
)
def test_what_cannot_come_from_outside_is_not_awaited(awaits: object, reason: str) -> None:
    with pytest.raises(WiringError, match=reason):
        asking(awaits=awaits)


def test_only_a_deadline_of_the_decider_ends_a_wait() -> None:
    for within in (timedelta(hours=1), purchases.deadlines["confirmed_by"]):
        with pytest.raises(WiringError, match="give a deadline of payment"):
            asking(awaits=Reported, within=within)


def test_the_graph_shows_what_is_awaited_after_the_effect_and_not_as_a_beginning() -> None:
    drawn = picture(app)
    asks = effect_id(purchases, TransferRequested)
    kinds = {node.id: node.kind for node in drawn.nodes}
    arrows = {(arrow.source, arrow.target) for arrow in drawn.arrows}
    for event in (TransferConfirmed, TransferDeclined):
        assert kinds[event.__name__] == "event"
        assert (asks, event.__name__) in arrows
    (node,) = [node for node in drawn.nodes if node.id == asks]
    assert "awaits TransferConfirmed or TransferDeclined, until confirmed_by" in node.notes


@pytest.mark.parametrize("options", [{"request": False}, {"request": True, "once_for": timedelta(0)}])
def test_only_a_request_is_remembered_for_a_time(options: dict[str, object]) -> None:
    with pytest.raises(WiringError, match="once_for"):
        type("Odd", (Order,), {}, **{"topic": "t", "key": "order_id", "once_for": timedelta(1), **options})


class _Notes:
    """A decider that notes each report, in a task of its own whose clock is the test's."""

    def __init__(self, *, forgets: bool) -> None:
        notes = Decider("note", state=Count, key="order_id")

        @notes.evolve
        def evolve(state: Count, event: Event, meta: Meta) -> Count:
            return replace(state, noted=state.noted + 1, at=meta.recorded_at) if isinstance(event, Noted) else state

        @notes.on
        def note(_state: Count, event: Reported) -> list[Noted]:
            return [Noted(order_id=event.order_id)]

        if forgets:

            @notes.forget
            def forgotten_at(state: Count) -> datetime | None:
                return None if state.at is None else state.at + timedelta(days=1)

        stage = Stage(Choreography("notes", [Service("notes", deciders=[notes])]))
        self.log = stage.set(lambda: BEGIN_MS)
        self.tasks, self.knows = Tasks(stage, self.log), 0
        self.record = self.report("r1")
        self.task = ("notes", self.record.partition)

    def report(self, name: str) -> Record:
        return self.log.records_of(Publication(Reported(order_id="O1"), name), BEGIN_MS)[0]

    def take(self, record: Record, day: float) -> int:
        """Handle a report, and return how many events follow."""
        number = self.tasks.number(record)
        return self._made(self.tasks.handle(self.task, self.knows, number, BEGIN_MS + int(day * DAY_MS)))

    def pass_deadlines(self, day: float) -> int:
        return self._made(self.tasks.pass_deadlines(self.task, self.knows, BEGIN_MS + int(day * DAY_MS)))

    def _made(self, made: Made) -> int:
        assert made.parked is None
        self.knows = made.knows
        return len(made.emitted)


def test_an_id_is_handled_once_for_the_declared_time_and_again_after_it() -> None:
    notes = _Notes(forgets=False)
    assert [notes.take(notes.record, day) for day in (0, 1, 2.9)] == [1, 0, 0]
    assert notes.take(notes.report("r2"), 2.9) == 1
    assert [notes.take(notes.record, day) for day in (3.1, 4)] == [1, 0]


def test_a_key_is_forgotten_with_its_ids_and_not_before_they_are() -> None:
    notes = _Notes(forgets=True)
    assert notes.take(notes.record, 0) == 1
    before = notes.knows
    notes.pass_deadlines(2)  # it would be forgotten after a day
    assert notes.knows == before
    assert notes.take(notes.record, 2.5) == 0
    notes.pass_deadlines(3.1)
    assert notes.knows == 0  # as if nothing had ever been
    assert notes.take(notes.record, 3.2) == 1


BEFORE = KeyedState(Count(), sequence=1, due={"by": 9})
PASSED = KeyMetadata(passed={"by": 5})


@pytest.mark.parametrize(
    ("before", "after", "is_again", "outcome"),
    [
        (BEFORE, BEFORE.replace(sequence=2), False, CAME),
        (BEFORE, BEFORE.replace(state=Count(noted=1)), False, CAME),
        (BEFORE, BEFORE, False, TWICE),
        (BEFORE, BEFORE.replace(sequence=2), True, TWICE),
        (BEFORE.replace(memory=PASSED, due={}), BEFORE.replace(sequence=2), False, LATE),
        (BEFORE.replace(memory=PASSED), BEFORE.replace(sequence=2), False, CAME),  # it is awaited anew
        (KeyedState(), BEFORE, False, LATE),  # its key is forgotten
    ],
)
def test_what_became_of_an_awaited_event(before: KeyedState, after: KeyedState, is_again: bool, outcome: str) -> None:
    assert outcome_of(Await("by", is_report=True), before, after, is_again=is_again) == outcome


def test_an_effects_own_answer_is_the_whole_answer_where_nothing_is_awaited_after_it() -> None:
    own = Await("by", is_report=False)
    assert outcome_of(own, KeyedState(), BEFORE, is_again=False) == ""
    assert outcome_of(own, KeyedState(), BEFORE.replace(due={}), is_again=False) == OVER
