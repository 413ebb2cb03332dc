"""What a replay compares: the decisions that were asked for, and the events that each of them emitted."""

import pickle

import pytest

from eventlib.model.record import Record
from eventlib.replay.comparison import OutputQuery, input_of, same
from eventlib.replay.outputs import EmittedEvents
from eventlib.replay.steps import RecordedEvent
from eventlib.replay.stuck_sagas import Samples
from services.order.events import ProductDelisted
from tests.apps.smallest import Asked, Granted


def emitted(event_id: str, at_ms: int, sequence: int | None) -> RecordedEvent:
    return RecordedEvent(Record("t", 0, 1, at_ms, b"k", b"", event_id, "T", sequence=sequence), None)


@pytest.mark.parametrize(
    ("sagas", "saga", "is_compared"),
    [(None, "a", True), (None, None, True), (frozenset({"a"}), "a", True), (frozenset({"a"}), "b", False)],
)
def test_decisions_of_the_sagas_that_were_asked_for_are_compared(
    sagas: frozenset[str] | None, saga: str | None, is_compared: bool
) -> None:
    assert OutputQuery(sagas=sagas).about(saga) is is_compared


def test_events_with_the_same_fields_are_the_same_only_if_their_types_are() -> None:
    record = Record("granted", 0, 1, 2, b"a", b"", "id", "Granted")
    assert same([Granted(order_id="a")], [(record, Granted(order_id="a"))])
    assert not same([Asked(order_id="a")], [(record, Granted(order_id="a"))])
    assert not same([Granted(order_id="a")], [(record.replace(key=b"b"), Granted(order_id="a"))])
    assert not same([Granted(order_id="a")], [(record.replace(topic="others"), Granted(order_id="a"))])
    assert not same([Granted(order_id="a")], [])


def test_events_of_a_takeover_come_in_the_order_in_which_they_were_emitted_and_once() -> None:
    found = EmittedEvents([emitted("c", 5, 3), emitted("a", 5, 1), emitted("b", 6, 2), emitted("d", 5, None)])
    assert [each.id for each in found.at(5)] == ["d", "a", "c"]
    assert [each.id for each in found.at(6)] == ["b"]
    assert found.at(5) == []


def test_an_input_without_a_type_is_named_after_the_event_that_was_read_from_it() -> None:
    event = ProductDelisted(sku="A")
    assert input_of(Record("t", 0, 1, 2, b"k", b""), event).type == "ProductDelisted"
    assert input_of(Record("t", 0, 1, 2, b"k", b"", "id", "Known"), event).type == "Known"


def test_of_states_with_several_schemas_one_is_looked_at_for_each_and_none_that_was_replaced() -> None:
    samples = Samples()
    states = [("1", b"first."), ("2", b"second"), ("1", b"second"), ("3", b"third."), ("3", None)]
    for key, value in states:
        samples.add(f"state/a/{key}", Record("t", 0, 0, 1, key.encode(), value))
    assert [record.value for _, record in samples.all()] == [b"second"]


def test_of_many_states_with_one_schema_few_are_kept() -> None:
    samples = Samples()
    for key in range(1_000):
        samples.add(f"state/a/{key}", Record("t", 0, 0, 1, b"%d" % key, b"schema"))
    assert pickle.dumps(samples).count(b"state/a/") < 100
    assert len([*samples.all()]) == 1
