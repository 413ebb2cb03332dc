"""Inputs that somebody has decided not to have handled."""

from dataclasses import dataclass

from eventlib.codec.port import Codec
from eventlib.evolution import wire_name, wire_name_of
from eventlib.log.port import Record
from eventlib.runtime.acts import Skip
from eventlib.runtime.records import SKIP, skip_key
from eventlib.runtime.state import TaskState


@wire_name("SkippedInput")
@dataclass(frozen=True)
class SkippedInput:
    """An input that a task passes over when it comes, and why; with `once` it is forgotten after that."""

    event_id: str = ""
    why: str = ""
    once: bool = False


class SkippedInputs:
    """The inputs that a task is not to handle, by id."""

    def __init__(self, state: TaskState, codec: Codec) -> None:
        self._state = state
        self._codec = codec
        self._known = {self._read(record).event_id for record in state.committed(SKIP)}

    @property
    def any(self) -> bool:
        """Whether there is any, asked for every input."""
        return bool(self._known)

    def why(self, event_id: str) -> str | None:
        """Return why an input is not to be handled; None when it is."""
        found = self._get(event_id)
        return None if found is None else found.why

    def add(self, skip: Skip) -> None:
        """Do not handle an input that comes later, or that waits."""
        self._known.add(skip.event_id)
        content = SkippedInput(*skip[:2], skip.once)
        record = Record("", 0, -1, 0, b"", self._codec.encode(content), type=wire_name_of(SkippedInput))
        self._state.put(skip_key(skip.event_id), record)

    def passed(self, event_id: str) -> None:
        """Take note that an input came, and was passed over."""
        found = self._get(event_id)
        if found is not None and found.once:
            self._state.put(skip_key(event_id), None)

    def _get(self, event_id: str) -> SkippedInput | None:
        if event_id not in self._known:
            return None
        record = self._state.get(skip_key(event_id))
        return None if record is None else self._read(record)

    def _read(self, record: Record) -> SkippedInput:
        return self._codec.decode(SkippedInput, record.value or b"")
