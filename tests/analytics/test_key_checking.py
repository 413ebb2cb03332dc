"""What the events of a key lead to is the same, whether they come one by one, or as the rows of one saga or of several."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from operator import attrgetter
from typing import Annotated

import pytest

from analytics.audit.application import Application, Run
from analytics.audit.finding import Finding
from analytics.audit.invariants import InvariantCheck, folded, place_of
from analytics.audit.key_checking import KeyChecker
from analytics.audit.key_rows import Row
from analytics.audit.packed_events import KeyRow, made_of, packed, unpacked, values_of
from analytics.audit.saga_events import SagaEvents
from analytics.audit.status import InFlight, LogStatus
from eventlib.eventlog import EventLog
from eventlib.model.event import Event
from eventlib.model.record import Record, key_text
from eventlib.personal import Personal
from eventlib.queries.sagas import find_saga
from services.invariants.story import Story

_STORY = "order_id"


def _incomplete_order(log: EventLog, run: Run) -> tuple[str, list[KeyRow]]:
    """Return an order that was completed, in order, without the event that its payment was taken."""
    orders = chain.from_iterable(run(log.port.read("orders", partition, 0, 500)) for partition in range(8))
    key = next(key_text(record) for record in orders if record.type == "OrderCompleted")
    told = [each for each in run(find_saga(log, key)).events if hasattr(each.event, _STORY)]
    rows = [KeyRow(each.record, depth, "", in_flight=False) for depth, each in enumerate(told)]
    return key, sorted((row for row in rows if row.record.type != "PaymentTaken"), key=lambda row: row.order)


def _one_by_one(key: str, rows: Sequence[KeyRow]) -> list[Row]:
    return [_row(key, [each], None) for each in rows]


def _by_saga(key: str, sagas: Sequence[Sequence[KeyRow]], checker: KeyChecker) -> list[Row]:
    return [_row(key, rows, checker.folded(_STORY, key, rows)) for rows in sagas]


def _row(key: str, rows: Sequence[KeyRow], folded: bytes | None) -> Row:
    return Row(*rows[0].order, _STORY, key, None, folded, packed(rows))


def test_rows_of_sagas_lead_to_what_their_events_lead_to(shop_log: str) -> None:
    application = Application()
    with application.running(shop_log) as (log, run):
        checker = KeyChecker(application, log)
        key, rows = _incomplete_order(log, run)

        def found(given: Sequence[Row]) -> list[Finding]:
            return [*checker.key(_STORY, key, given)]

        one_by_one = found(_one_by_one(key, rows))
        assert {each.rule for each in one_by_one} >= {"completed_orders_are_whole"}
        assert found(_by_saga(key, [rows], checker)) == one_by_one
        assert found(_by_saga(key, [rows[::2], rows[1::2]], checker)) == one_by_one
        assert found(_by_saga(key, [rows[:-1]], checker)) != one_by_one  # the last one counts


def test_a_state_that_cannot_be_carried_is_folded_again(shop_log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    application = Application()
    with application.running(shop_log) as (log, run):
        checker = KeyChecker(application, log)
        key, rows = _incomplete_order(log, run)
        before = [*checker.key(_STORY, key, _one_by_one(key, rows))]
        monkeypatch.setattr(Story, "__reduce__", None)
        (row,) = _by_saga(key, [rows], checker)
        assert row.folded is None
        assert [*checker.key(_STORY, key, [row])] == before


def test_only_a_key_that_several_sagas_share_is_folded_from_packed_events(shop_log: str) -> None:
    application = Application()
    at_rest = {
        (service.name, topic.name, partition): 1 << 40
        for service in application.choreography.services
        for topic in service.inputs
        for partition in range(topic.partitions)
    }
    check = InvariantCheck(application, shop_log, LogStatus(at_rest, frozenset(), frozenset()))
    with application.running(shop_log) as (log, run):
        checker, flight = KeyChecker(application, log), InFlight(application, check.status)
        key, rows = _incomplete_order(log, run)
        expected = [*checker.key(_STORY, key, _one_by_one(key, rows))]

        def found(rows: Iterable[Row], check: InvariantCheck) -> list[Finding | Row]:
            return [*folded(sorted((place_of(row), row) for row in rows if row.field == _STORY), check)]

        records = [row.record.replace(correlation_id="one") for row in rows]
        alone = [*SagaEvents(checker, flight, log).rows(records)]
        assert [(row.saga, row.events) for row in alone if row.field == _STORY] == [("one", b"")]
        assert {each.rule for each in found(alone, check) if isinstance(each, Finding)} >= {
            each.rule for each in expected
        }

        two = [each.replace(correlation_id=f"saga {n % 2}") for n, each in enumerate(records)]
        by_saga = sorted(two, key=attrgetter("correlation_id"))
        shared = found(SagaEvents(checker, flight, log).rows(by_saga), check)
        assert {row.saga for row in shared if isinstance(row, Row)} == {"saga 0", "saga 1"}

        again = replace(check, shared=frozenset({key}), sagas=frozenset({"saga 0", "saga 1"}))
        with_events = [*SagaEvents(checker, flight, log, again.shared).rows(by_saga)]
        assert {(row.field, row.about) for row in with_events} == {(_STORY, key)}
        of_both = {each.rule for each in found(with_events, again) if isinstance(each, Finding)}
        assert of_both >= {each.rule for each in found(alone, check) if isinstance(each, Finding)}


def test_events_of_many_sagas_have_one_row_for_each_other_key(shop_log: str) -> None:
    application = Application()
    nothing = LogStatus({}, frozenset(), frozenset())
    with application.running(shop_log) as (log, run):
        checker, flight = KeyChecker(application, log), InFlight(application, nothing)
        _, rows = _incomplete_order(log, run)
        records = [row.record.replace(correlation_id=f"saga {n}") for n, row in enumerate(rows)]
        of_shelves = [row for row in SagaEvents(checker, flight, log).rows(records) if row.field == "sku"]
        assert len({row.about for row in of_shelves}) == len(of_shelves)
        orders = [[each.order for each in unpacked(row.events)] for row in of_shelves]
        assert all(each == sorted(each) for each in orders)
        assert sum(map(len, orders)) > len(orders)


class Weighed(Event, topic="weights", key="sku"):
    """A product was put on a scale."""

    sku: str
    at: str | datetime


class Asked(Event, topic="questions", key="sku"):
    """A person has asked about a product."""

    sku: str
    who: str
    name: Annotated[str, Personal(subject="who")]


def test_events_under_other_keys_go_on_as_values_that_make_the_same_events(shop_log: str) -> None:
    application = Application()
    with application.running(shop_log) as (log, run):
        checker, flight = KeyChecker(application, log), InFlight(application, LogStatus({}, frozenset(), frozenset()))
        _, rows = _incomplete_order(log, run)
        records = {row.record.event_id: row.record for row in rows}
        of_shelves = [row for row in SagaEvents(checker, flight, log).rows(records.values()) if row.field == "sku"]
        packed_rows = [each for row in of_shelves for each in unpacked(row.events)]
        assert packed_rows
        for each in packed_rows:
            whole = records[each.record.event_id]
            event = log.decode(whole)
            assert event is not None
            assert (each.event, each.record.value) == (None, None)
            assert each.order == KeyRow(whole, each.depth, "", in_flight=False).order
            made = made_of(type(event), each.values or {})
            assert (made, repr(made), made.model_dump_json()) == (event, repr(event), event.model_dump_json())


def test_what_marshal_does_not_carry_is_decoded_again() -> None:
    record = Record("weights", 0, 7, 1, b"a", b"bytes", "id", "Weighed", correlation_id="saga")
    told, other = (Weighed(sku="a", at=at) for at in ("noon", datetime(2026, 1, 1, tzinfo=UTC)))
    rows = [KeyRow(record, 0, "", False, None, values_of(each)) for each in (told, other)]
    assert all(row.values is not None for row in rows)  # by the first one
    as_values, as_bytes = unpacked(packed(rows[:1])), unpacked(packed(rows))
    assert [each.values for each in as_values] == [{"sku": "a", "at": "noon"}]
    assert [(each.values, each.record) for each in as_bytes] == [(None, record)] * 2


def test_personal_fields_are_not_carried_as_values() -> None:
    assert values_of(Asked(sku="a", who="ada", name="Ada")) is None
