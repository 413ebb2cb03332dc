"""The pending effects of a task that are to be started: at its start, and when a pause ends."""

from collections import deque
from collections.abc import Callable

from eventlib.model.event import Event
from eventlib.model.record import Record
from eventlib.runtime.records import EFFECT, effect_key
from eventlib.runtime.state import TaskState


class PendingEffects:
    """Starts the effects that the changelog has as pending, neither parked nor held: many of them in several steps."""

    def __init__(
        self, state: TaskState, start: Callable[[Record, Event | None], bool], holds: Callable[[Record], bool]
    ) -> None:
        self._state = state
        self._start = start
        self._holds = holds
        self._left = deque[str]()

    def __len__(self) -> int:
        return len(self._left)

    def start(self, most: int) -> None:
        """Start up to `most` of them now; `start_more` has the rest. One that runs already is left alone."""
        pending = (each for each in self._state.committed(EFFECT) if not each.headers)
        self._left = deque(each.event_id for each in pending if not self._holds(each))
        self.start_more(most)

    def start_more(self, most: int) -> None:
        """Start up to `most` of those that are left."""
        while self._left and most > 0:
            request = self.find(self._left.popleft())
            if request is not None and not self._holds(request):
                most -= self._start(request, None)  # what waits at a limit takes no room

    def find(self, request_id: str) -> Record | None:
        """Return a pending request; None when it is answered, given up or parked."""
        request = self._state.get(effect_key(request_id))
        return None if request is None or request.headers else request
