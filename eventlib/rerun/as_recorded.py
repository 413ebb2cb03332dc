"""Decisions as they were taken: a rerun that begins at a time takes over what the service did until then."""

from collections.abc import Mapping
from copy import copy
from typing import Any

from eventlib.decider import Decider
from eventlib.event import Event, Meta, key_of
from eventlib.eventlog import EventLog
from eventlib.identity import derived_id
from eventlib.replay.acts import Done, Input
from eventlib.rerun.recorded import SaidThen
from eventlib.service import Service


class Recollection:
    """What one task of a service has said and refused in a transaction; nothing while today's code decides."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._said: Mapping[str, Event] | None = None
        self._refused: Mapping[tuple[str, str], str] = {}

    async def recall(self, done: Done, then: SaidThen) -> None:
        """Decide as the service did in a transaction; `then` is what it said at that time.

        Events that today's code cannot read any more are left out.
        """
        decoded = await self._log.decode_many(then.all)
        self._said = {record.event_id: event for record, event in decoded if isinstance(event, Event)}
        self._refused = {
            (act.record.event_id, decider): refusal.reason
            for act in done.acts
            if isinstance(act, Input)
            for decider, refusal in act.refused.items()
            if refusal.kind == "park"
        }

    def forget(self) -> None:
        """Let today's code decide from now on."""
        self._said = None

    @property
    def decides(self) -> bool:
        """Whether decisions are those of the past."""
        return self._said is not None

    def said(self, cause_id: str, decider: str, key: str) -> list[Event]:
        """Return what was said about a cause."""
        found = list[Event]()
        while event := (self._said or {}).get(derived_id(cause_id, decider, key, len(found))):
            found.append(event)
        return found

    def refuse(self, event_id: str, decider: str) -> None:
        """Fail as the decider did, if it did."""
        reason = self._refused.get((event_id, decider))
        if reason is not None:
            name, _, sentence = reason.partition(": ")
            raise type(name, (Exception,), {})(sentence)

    def cause_of(self, meta: Meta) -> str:
        """Return what the ids of all that is said about an input derive from."""
        is_foreign = meta.topic in self._log.foreigners.topics
        return f"{meta.topic}/{meta.partition}/{meta.offset}" if is_foreign else meta.id


def remembering(run: Service, recollection: Recollection) -> Service:
    """Return a service whose deciders say what was said, as long as they are in the past."""
    other = copy(run)
    other.deciders = tuple(Remembering(decider, recollection) for decider in run.deciders)
    return other


class Remembering(Decider[Any]):
    """A decider that says what was said, as long as it is in the past; then it decides."""

    def __init__(self, decider: Decider[Any], recollection: Recollection) -> None:
        self.__dict__.update(decider.__dict__)
        self._recollection = recollection

    def answer(self, state: Any, event: Event, meta: Meta) -> list[Event]:
        """Return what was said in answer to an event."""
        past = self._recollection
        if not past.decides:
            return super().answer(state, event, meta)
        past.refuse(meta.id, self.name)
        return past.said(past.cause_of(meta), self.name, "" if self.key is None else key_of(event) or "")

    def answer_deadline(self, name: str, state: Any, meta: Meta) -> list[Event]:
        """Return what was said when a deadline had passed."""
        past = self._recollection
        if not past.decides:
            return super().answer_deadline(name, state, meta)
        return past.said(meta.id, self.name, meta.subject)
