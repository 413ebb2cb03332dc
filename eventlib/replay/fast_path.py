"""The fast path of a replay, for decisions that are unchanged: nearly all are.

It covers the common case and has no side effect until it is sure; everything else falls back to the full comparison,
from the beginning, which pure functions allow.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from eventlib.codec.base import Codec
from eventlib.log.record import Record
from eventlib.model.decider import Decider
from eventlib.model.event import Event, Meta, contract_of
from eventlib.model.identity import derived_id
from eventlib.replay.context import meta_when_emitted
from eventlib.replay.partition_buffer import UNREAD, Item
from eventlib.replay.scanner import EmissionKey
from eventlib.replay.spilling_cache import SpillingCache
from eventlib.runtime.keyed_state import KeyedState


class _Target(NamedTuple):
    """What the records of an event type have: type, topic and key field."""

    type: str
    topic: str
    key: str


class FastPathComparer:
    """Compares one decider's decisions on one internal event type that is no request. `source` is `service/decider`.

    Events of records in `made` are put there when their bytes are the same.
    """

    __slots__ = (
        "_call",
        "_decider",
        "_entries",
        "_event_type",
        "_evolve_wants_meta",
        "_evolved",
        "_gives",
        "_handler_wants_meta",
        "_initial",
        "_made",
        "_source",
        "_targets",
        "_wants_meta",
    )

    def __init__(
        self,
        decider: Decider[Any],
        event_type: type[Event],
        source: str,
        entries: SpillingCache,
        codec: Codec,
        made: dict[str, Item],
    ) -> None:
        handler = decider.handlers[event_type]
        self._decider = decider.name
        self._event_type = event_type
        self._source = source
        self._entries = entries
        self._gives = codec.gives
        self._made = made
        self._initial = decider.initial
        self._evolved = decider.evolved
        self._call = handler.call
        self._handler_wants_meta = handler.wants_meta
        self._evolve_wants_meta = decider.evolve_wants_meta
        self._wants_meta = decider.wants_meta(event_type)
        contracts = {each: contract_of(each) for each in handler.emits}
        self._targets = {
            each: _Target(c.type, c.topic.name, c.key) for each, c in contracts.items() if c.key is not None
        }

    def decides(self, record: Record, event: Any, emitted: dict[EmissionKey, list[Item]]) -> bool:
        """Replay an input; False, without side effects, unless the outputs certainly equal those `emitted` then."""
        cause_id = record.id
        if event.__class__ is not self._event_type or not cause_id:
            return False
        try:
            key = record.key.decode()  # type: ignore[union-attr]  # a record without a key takes the full path
            entry = self._entries.get(key)
            before, initial = entry.state, self._initial
            meta = record.meta() if self._wants_meta else _NO_META
            state = self._evolved(initial if before is None else before, event, meta)
            known = initial if state is None else state
            now = self._call(known, event, meta) if self._handler_wants_meta else self._call(known, event)
            by = self._source, key, cause_id
            then = emitted.get(by, _NOTHING)
            if then or now:
                state = self._after(state, now, then, by)
        except Exception:  # noqa: BLE001  the full path meets it again, and reports it
            return False
        changed_by, saga = cause_id, record.correlation_id or cause_id
        if then:
            del emitted[by]
            last = then[-1][0]
            changed_by, saga = last.event_id, last.correlation_id or saga
        if then or state is not before:
            self._entries.put(key, KeyedState(state, 0, changed_by, saga, None, entry.memory))
        return True

    def _after(self, state: Any, now: Sequence[Event], then: list[Item], by: tuple[str, str, str]) -> Any:
        """Return the state after what was emitted; sorts `then`. Raises: _MayDiffer."""
        if len(then) != len(now):
            raise _MayDiffer
        if len(then) > 1:  # from several partitions, perhaps
            then.sort(key=_sequence)
        _, key, cause_id = by
        for ordinal, each in enumerate(now):
            was, read = then[ordinal]
            if was.id != derived_id(cause_id, self._decider, key, ordinal) or not self._is_emitted(each, was, read):
                raise _MayDiffer
            meta = meta_when_emitted(was) if self._evolve_wants_meta else _NO_META
            known = self._initial if state is None else state
            state = self._evolved(known, read if isinstance(read, Event) else each, meta)
        return state

    def _is_emitted(self, now: Event, was: Record, read: Any) -> bool:
        """Return whether an event certainly equals the emitted one: by bytes if that is not decoded yet."""
        type_, topic, key = self._targets[now.__class__]
        if was.topic != topic or was.key != str(now.__dict__[key]).encode():
            return False
        if read is UNREAD:
            if was.type != type_ or was.value is None or not self._gives(now, was.value):
                return False
            if was.id in self._made and self._made[was.id][0] is was:
                self._made[was.id] = (was, now)
            return True
        return read.__class__ is now.__class__ and bool(read.__dict__ == now.__dict__)


class _MayDiffer(Exception):
    """The decision may differ."""


def _sequence(item: Item) -> int:
    return item[0].sequence or 0


_NO_META = Meta("")
_NOTHING: list[Item] = []
