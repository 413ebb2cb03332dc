"""What the events of a key lead to is the same, whether they come one by one, or as the rows of one saga or of several."""

from collections.abc import Sequence
from itertools import chain

import pytest

from analytics.audit.application import Application, Run
from analytics.audit.finding import Finding
from analytics.audit.key_checking import KeyChecker, KeyRow, packed
from analytics.audit.key_rows import Row
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
    return Row(*rows[0].order, _STORY, key, folded, packed(rows))


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
