"""What the events of a key lead to is the same, whether they come one by one, or as the rows of one saga or of several."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from operator import attrgetter

import pytest

from analytics.audit.application import Application, Run
from analytics.audit.finding import Finding
from analytics.audit.invariants import InvariantCheck, folded, place_of
from analytics.audit.key_checking import KeyChecker, KeyRow, packed, unpacked
from analytics.audit.key_rows import Row
from analytics.audit.saga_events import SagaEvents
from analytics.audit.status import InFlight, LogStatus
from eventlib.eventlog import EventLog
from eventlib.log.record import key_text
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
