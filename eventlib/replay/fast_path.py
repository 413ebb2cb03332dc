"""The fast path of a replay, for decisions that are unchanged: nearly all are.

It covers the common case and has no side effect until it is sure; everything else falls back to the full comparison,
from the beginning, which pure functions allow.
"""

from collections.abc import Callable, Sequence
from typing import Any

from eventlib.codec.wire_format import HEADER_BYTES
from eventlib.ground.ends import as_error
from eventlib.model.decider import Decider
from eventlib.model.event import Contract, Event, Meta, contract_of
from eventlib.model.identity import derived_id
from eventlib.model.record import Record
from eventlib.replay.context import meta_when_emitted
from eventlib.replay.partition_buffer import UNREAD, Buffered, EmissionKey
from eventlib.replay.scanner import LogScanner
from eventlib.replay.spilling_cache import SpillingCache
from eventlib.runtime.keyed_state import KeyedState


class _Target:
    """What the records of an event type have: type, topic and key field; and what writes values that begin with a header."""

    __slots__ = ("header", "key", "topic", "type", "write")

    def __init__(self, contract: Contract, key: str) -> None:
        self.type = contract.type
        self.topic = contract.topic.name
        self.key = key
        self.header = b""
        self.write: Callable[[Any], bytes] | None = None


class FastPathComparer:
    """Compares one decider's decisions on one internal event type that is no request. `source` is `service/decider`."""

    __slots__ = (
        "_call",
        "_codec",
        "_decider",
        "_entries",
        "_event_of",
        "_event_type",
        "_evolve",
        "_evolve_wants_meta",
        "_handler_wants_meta",
        "_initial",
        "_may_forget",
        "_source",
        "_targets",
        "_wants_meta",
    )

    def __init__(
        self,
        decider: Decider[Any],
        event_type: type[Event],
        source: str,
        entries: SpillingCache[KeyedState],
        window: LogScanner,
    ) -> None:
        handler = decider.handlers[event_type]
        self._decider = decider.name
        self._event_type = event_type
        self._source = source
        self._entries = entries
        self._codec = window.codec
        self._event_of = window.event
        self._initial = decider.initial
        self._evolve: Callable[..., Any] = decider.evolves
        self._call = handler.call
        self._handler_wants_meta = handler.wants_meta
        self._may_forget = decider.may_forget
        self._evolve_wants_meta = decider.evolve_wants_meta
        self._wants_meta = decider.wants_meta(event_type)
        contracts = {each: contract_of(each) for each in handler.emits}
        self._targets = {
            each: _Target(contract, contract.key) for each, contract in contracts.items() if contract.key is not None
        }

    def decides(self, record: Record, event: Any, emitted: dict[EmissionKey, list[Buffered]]) -> bool:
        """Replay an input; False, without side effects, unless the outputs certainly equal those `emitted` then."""
        cause_id = record.id
        if event.__class__ is not self._event_type or not cause_id:
            return False
        try:
            key = record.key.decode()  # type: ignore[union-attr]  # a record without a key takes the full path
            entry = self._entries.get(key)
            before, initial = entry.state, self._initial
            meta = record.meta() if self._wants_meta else _NO_META
            known_before = initial if before is None else before
            state = (
                self._evolve(known_before, event, meta)
                if self._evolve_wants_meta
                else self._evolve(known_before, event)
            )
            if state is None and not self._may_forget:
                return False
            known = initial if state is None else state
            now = self._call(known, event, meta) if self._handler_wants_meta else self._call(known, event)
            by = self._source, key, cause_id
            then = emitted.get(by, _NOTHING)
            if then or now:
                state = self._after(state, now, then, by)
        except BaseException as raised:  # noqa: BLE001  the full path meets it again, and reports it
            as_error(raised)
            return False
        changed_by, saga = cause_id, record.correlation_id or cause_id
        if then:
            del emitted[by]
            last = then[-1].record
            changed_by, saga = last.event_id, last.correlation_id or saga
        if then or (state is not known_before and not (state is None and before is None)):
            self._entries.put(key, KeyedState(state, 0, changed_by, saga, None, entry.memory))
        return True

    def _after(self, state: Any, now: Sequence[Event], then: list[Buffered], by: tuple[str, str, str]) -> Any:
        """Return the state after what was emitted; sorts `then`. Raises: _MayDiffer."""
        if len(then) != len(now):
            raise _MayDiffer
        if len(then) > 1:  # from several partitions, perhaps
            then.sort(key=_sequence)
        _, key, cause_id = by
        for ordinal, each in enumerate(now):
            item = then[ordinal]
            was = item.record
            if was.id != derived_id(cause_id, self._decider, key, ordinal) or not self._is_emitted(each, item):
                raise _MayDiffer
            known = self._initial if state is None else state
            if self._evolve_wants_meta:
                state = self._evolve(known, item.event, meta_when_emitted(was))
            else:
                state = self._evolve(known, item.event)
            if state is None and not self._may_forget:
                raise _MayDiffer
        return state

    def _is_emitted(self, now: Event, item: Buffered) -> bool:
        """Return whether an event certainly equals the emitted one: by bytes if that is not decoded yet."""
        target = self._targets[now.__class__]
        was, read = item.record, item.event
        if read is UNREAD and item.is_sample:
            read = self._event_of(item)
        if was.topic != target.topic or was.key != str(now.__dict__[target.key]).encode():
            return False
        if read is not UNREAD:
            return read.__class__ is now.__class__ and bool(read.__dict__ == now.__dict__)
        value = was.value
        if was.type != target.type or value is None:
            return False
        if target.write is None or not value.startswith(target.header):
            target.header, target.write = value[:HEADER_BYTES], self._codec.rewriter(now.__class__, value)
        if target.write is None or target.write(now) != value:
            return False
        item.event = now
        return True


class _MayDiffer(Exception):
    """The decision may differ."""


def _sequence(item: Buffered) -> int:
    return item.record.sequence or 0


_NO_META = Meta("")
_NOTHING: list[Buffered] = []
