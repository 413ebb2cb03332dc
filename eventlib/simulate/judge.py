"""The judge: hears every append, and tells which law it breaks: the choreography's own, and those of any log."""

from collections.abc import Callable, Sequence
from typing import Any

from eventlib.decider import Decider
from eventlib.eventlog import EventLog
from eventlib.laws import Breach, Told, Watch
from eventlib.log.port import Record
from eventlib.runtime.records import STATE, state_name
from eventlib.simulate.loglaws import LogLaws
from eventlib.simulate.stage import Stage


class Judge:
    """Checks laws as records are appended; `breaches` are what it found."""

    def __init__(self, stage: Stage, log: EventLog, clock: Callable[[], int]) -> None:
        self.breaches = list[Breach]()
        self.log_laws = LogLaws(stage.declared, log.codec, clock)
        self._log = log
        self._watch = Watch(stage.declared.laws)
        self._hears = stage.hears
        self._lawful = {s.name: s for law in stage.declared.laws for s in law.sources if isinstance(s, Decider)}

    def hear(self, records: Sequence[Record], offsets: Sequence[int]) -> None:
        """Take an append in."""
        for record, offset in zip(records, offsets, strict=True):
            match self._hears.get(record.topic):
                case "event":
                    self._hear_event(record._replace(offset=offset))
                case "changelog":
                    self._hear_state(record)
                case "journal":
                    self.breaches += self.log_laws.journal(record, records)

    def rest(self, told: Told) -> None:
        """Check what must hold now that nothing is in flight."""
        self.breaches += self._watch.rest(told)

    def _hear_event(self, record: Record) -> None:
        event = self._log.decode(record)
        if event is not None:
            self._log.remember([record], [record.offset], [event])
            self.breaches += self.log_laws.event(record)
            self.breaches += self._watch.said(event, record.meta())

    def _hear_state(self, record: Record) -> None:
        key = (record.key or b"").decode()
        if not key.startswith(STATE):
            return
        name, of = state_name(key)
        decider: Decider[Any] | None = self._lawful.get(name)
        if decider is not None:
            state = self._log.codec.decode(decider.state, record.value) if record.value else None
            self.breaches += self._watch.changed(decider, of, state)
