"""The rows of an alternative past: each event of it, and each recorded one that it lacks."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

from pyspark.sql import types as t

from analytics.whatif.figures import Figure
from eventlib.eventlog import EventLog
from eventlib.json_form import json_text
from eventlib.model.choreography import Choreography
from eventlib.model.event import Event, contract_of
from eventlib.model.record import Record, key_text
from eventlib.values import from_ms

Origin = Literal["recorded", "decided", "modelled"]
"""`recorded`: it came from outside, or an effect's recorded answer. `decided`: a decider emitted it. `modelled`: the
declared model of the outside world answered it, or the declared change of external events put it there."""

Kind = Literal["unchanged", "changed", "added", "missing", "failed"]
"""How it compares with what was recorded. `missing` is recorded only; `failed` is no event, but a handler that raised."""


def row_schema(figures: Sequence[Figure]) -> t.StructType:
    """Return the columns of the rows, those of the figures last."""
    text = ["saga", "id", "topic", "key", "source", "handler", "correlation_id", "causation_id", "origin", "difference"]
    fields = [t.StructField(name, t.StringType()) for name in text]
    fields += [
        t.StructField("position", t.LongType()),
        t.StructField("partition", t.IntegerType()),
        t.StructField("offset", t.LongType()),
        t.StructField("is_answer", t.BooleanType()),
    ]
    for when in ("then", "now"):
        fields += [
            t.StructField(f"type_{when}", t.StringType()),
            t.StructField(f"at_{when}", t.TimestampType()),
            t.StructField(f"final_{when}", t.BooleanType()),
            t.StructField(f"reason_{when}", t.StringType()),
            t.StructField(f"fields_{when}", t.StringType()),
        ]
    for figure in figures:
        currency, then, now = figure.columns
        fields += [
            t.StructField(currency, t.StringType()),
            *(t.StructField(name, t.LongType()) for name in (then, now)),
        ]
    return t.StructType(fields)


class Side(NamedTuple):
    """A record with its event, if that can be read: as it was recorded, or as it is in the alternative past."""

    record: Record
    event: Event | None


class RowMaker:
    """Makes rows, numbered in the order of the alternative past.

    `fields_then` and `fields_now` are the fields as JSON where the two differ; an unchanged event has neither.
    """

    def __init__(self, recorded: EventLog, figures: Sequence[Figure]) -> None:
        self._recorded = recorded
        self._figures = figures
        self._story, self._keyed = _story(recorded.choreography)
        self._position = 0

    def unchanged(self, side: Side, twin: Record, origin: Origin, handler: str, *, answer: bool) -> tuple[Any, ...]:
        """Return the row of an event that is as it was recorded."""
        described = self._described(side, whole=False)
        head = self._head(side, twin, origin, "unchanged", handler, answer=answer)
        return (*head, *described, *described, *self._sums(side.event, side.event))

    def differing(
        self, then: Side | None, now: Side | None, origin: Origin, handler: str, *, answer: bool = False
    ) -> tuple[Any, ...]:
        """Return the row of an event that is otherwise now, or there in only one of the two pasts."""
        kind: Kind = "added" if then is None else "missing" if now is None else "changed"
        side = now or then
        assert side is not None  # noqa: S101  one of the two is there
        head = self._head(side, None if then is None else then.record, origin, kind, handler, answer=answer)
        events = [None if each is None else each.event for each in (then, now)]
        return (*head, *self._described(then, whole=True), *self._described(now, whole=True), *self._sums(*events))

    def failed(self, record: Record, handler: str, reason: str, at_ms: int) -> tuple[Any, ...]:
        """Return the row of a handler that raised on an input."""
        head = self._head(Side(record, None), record, "decided", "failed", handler, answer=False)
        now = (None, from_ms(at_ms), False, reason, None)
        return (*head, *_NOTHING, *now, *self._sums(None, None))

    def event(self, record: Record) -> Event | None:
        """Return a recorded event; None if it cannot be read."""
        from eventlib.errors import UndecodableRecord

        try:
            return self._recorded.decode(record)
        except UndecodableRecord:
            return None

    def _head(
        self, side: Side, twin: Record | None, origin: Origin, kind: Kind, handler: str, *, answer: bool
    ) -> tuple[Any, ...]:
        record, self._position = side.record, self._position + 1
        place = twin or record
        names = (record.topic, key_text(record), record.source, handler, record.correlation_id, record.causation_id)
        offset = place.offset if place.offset >= 0 else None
        return (self.saga(side), record.event_id, *names, origin, kind, self._position, place.partition, offset, answer)

    def saga(self, side: Side) -> str:
        """Return the saga of an event: the key under which its saga ends, else its correlation id; empty for neither."""
        record = side.record
        if not self._story:
            return record.correlation_id or record.event_id
        if side.event is not None and contract_of(type(side.event)).key == self._story:
            return key_text(record)
        if (record.source or "").partition("/")[2] in self._keyed:
            return record.subject or ""
        return str(getattr(side.event, self._story, None) or "")

    def _described(
        self, side: Side | None, *, whole: bool
    ) -> tuple[str | None, datetime | None, bool, str | None, str | None]:
        if side is None:
            return _NOTHING
        record, event = side
        if event is None:
            return record.type, from_ms(record.timestamp_ms), False, None, None
        contract, reason = contract_of(type(event)), getattr(event, "reason", None)
        fields = json_text(event) if whole else None
        text = None if reason is None else str(reason)
        return contract.type, from_ms(record.timestamp_ms), contract.final, text, fields

    def _sums(self, then: Event | None, now: Event | None) -> list[Any]:
        found = list[Any]()
        for figure in self._figures:
            (currency_then, amount_then), (currency_now, amount_now) = figure.of(then), figure.of(now)
            found += [currency_now or currency_then, amount_then, amount_now]
        return found


def _story(choreography: Choreography) -> tuple[str, frozenset[str]]:
    """Return the key field of the events that end a saga, and the deciders that have it as their key."""
    contracts = [contract_of(event) for event in choreography.events]
    name = next((each.key for each in contracts if each.final and each.key), "")
    return name, frozenset(decider.name for decider in choreography.deciders if name and decider.key == name)


_NOTHING = (None, None, False, None, None)
