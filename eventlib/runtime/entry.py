"""A key of a decider as its task holds it in memory, and as the changelog holds it."""

import json
from typing import Any, NamedTuple

from eventlib.codec.port import Codec
from eventlib.decider import Decider
from eventlib.log.port import Record
from eventlib.times import to_ms

_HEADER = "task"


class Entry(NamedTuple):
    """A key's state, and what the task remembers about it.

    `state` is None for a key that was never seen or is forgotten. `sequence` counts the events said, `changed_by` is
    the event that last changed the key. `due` and `passed` are times in ms by deadline; `answered` holds the hash of
    the body of each request that was handled, by id.
    """

    state: Any = None
    sequence: int = 0
    changed_by: str | None = None
    correlation_id: str | None = None
    traceparent: str | None = None
    due: dict[str, int] = {}  # noqa: RUF012  never mutated: each change makes a new one
    passed: dict[str, int] = {}  # noqa: RUF012  as above
    answered: dict[str, str] = {}  # noqa: RUF012  as above

    @property
    def is_gone(self) -> bool:
        """Nothing is left to remember."""
        return self.state is None and not self.answered

    def with_due(self, decider: Decider[Any]) -> "Entry":
        """Return the entry with the deadlines that follow from its state; one that has passed stays passed."""
        if self.state is None or not (decider.deadlines or decider.forgotten_at):
            return self._replace(due={}) if self.due else self
        times = {name: to_ms(at) for name, at in decider.due(self.state).items()}
        due = {name: at for name, at in times.items() if self.passed.get(name) != at}
        return self if due == self.due else self._replace(due=due)


def entry_record(entry: Entry, codec: Codec, state_key: str) -> Record:
    """Return an entry as a changelog record (its topic, partition, time and source are the task's to fill in)."""
    memory = {k: v for k, v in (("due", entry.due), ("passed", entry.passed), ("answered", entry.answered)) if v}
    state = b"" if entry.state is None else codec.encode(entry.state)
    return Record(
        "",
        0,
        -1,
        0,
        state_key.encode(),
        None if entry.is_gone else state,
        None,
        None if entry.state is None else type(entry.state).__name__,
        None,
        None,
        entry.sequence,
        entry.correlation_id,
        entry.changed_by,
        entry.traceparent,
        ((_HEADER, json.dumps(memory, separators=(",", ":")).encode()),) if memory else (),
    )


def entry_of(record: Record, decider: Decider[Any], codec: Codec) -> Entry:
    """Read an entry back from its changelog record. Raises: UnknownSchema, ContractError."""
    return Entry(
        codec.decode(decider.state, record.value) if record.value else None,
        record.sequence or 0,
        record.causation_id,
        record.correlation_id,
        record.traceparent,
        **memory_of(record),
    )


def memory_of(record: Record) -> dict[str, dict[str, Any]]:
    """Return the deadlines and answered requests that a state's changelog record carries beside the state."""
    for name, value in record.headers:
        if name == _HEADER:
            found: dict[str, dict[str, Any]] = json.loads(value)
            return found
    return {}
