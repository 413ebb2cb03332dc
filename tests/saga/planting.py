"""Change a decider of the shop for a while, and see which orders a replay names."""

from collections.abc import Callable
from typing import Any

import pytest

from eventlib.model.decider import Decider
from eventlib.model.event import Event
from eventlib.model.handler import Handler
from eventlib.model.record import Record
from eventlib.replay import Report
from tests.saga.running import RunningShop

MANY = tuple(map(str, range(24)))
CANCELLED = MANY[:4]


async def sagas(shop: RunningShop, said: Callable[[Record, Event], bool]) -> set[str]:
    """Return the orders about which something was said."""
    return {str(event.order_id) for record, event in await shop.records() if said(record, event)}  # type: ignore[attr-defined]  # they all have one


async def caused_by(shop: RunningShop, cause: type[Event], source: str) -> set[str]:
    """Return the orders for which a decider said something in answer to a type of event."""
    causes = {record.event_id for record, event in await shop.records() if isinstance(event, cause)}
    return await sagas(shop, lambda record, _: record.source == source and record.causation_id in causes)


def plant(
    monkeypatch: pytest.MonkeyPatch, decider: Decider[Any], event: type[Event], wrong: Callable[..., Any]
) -> None:
    handler = decider.handlers[event]
    handle(monkeypatch, decider, event, Handler(wrong, handler.emits, handler.wants_meta))


def handle(monkeypatch: pytest.MonkeyPatch, decider: Decider[Any], event: type[Event], handler: Handler) -> None:
    monkeypatch.setitem(decider.handlers, event, handler)


def unhandle(monkeypatch: pytest.MonkeyPatch, decider: Decider[Any], event: type[Event]) -> None:
    # Taken out and put back, an item would be the last one: a copy without it leaves the order for other tests alone.
    monkeypatch.setattr(decider, "handlers", {each: h for each, h in decider.handlers.items() if each is not event})


def named(report: Report) -> dict[str, set[str]]:
    """Return the orders that differ, by handler."""
    return {handler.handler: set(handler.sagas) for handler in report.differing}
