"""Requests that a key has answered: the newest ones are remembered with the key, each older one in an entry of its own.

So a request costs the same whatever its key has answered before. How long one counts is decided by the recorded time of
what comes again, and by how many its key has answered since: when its entry is removed changes no decision.
"""

from collections.abc import Sequence
from typing import Any

from eventlib.model.decider import Decider
from eventlib.runtime.keyed_state import KEPT_WITH_KEY, KeyMetadata, MovedRequest, moved_of, moved_record
from eventlib.runtime.records import request_key
from eventlib.runtime.state import TaskState

_EVERY, _AT_ONCE = 500, 1_000
"""After how many moved requests expired entries are removed, and how many at most: more than came."""


def entries_for(decider: Decider[Any]) -> int:
    """Return how many requests of a key have entries of their own."""
    return max(0, decider.requests_remembered - KEPT_WITH_KEY)


class AnsweredRequests:
    """The requests that the keys of a task have answered."""

    def __init__(self, state: TaskState) -> None:
        self._state = state
        self._since_removal = 0

    def find(self, decider: Decider[Any], key: str, memory: KeyMetadata, request_id: str, at_ms: int) -> str | None:
        """Return the hash of a request's body, if the key has answered it and that is remembered at a time."""
        known = memory.answer_to(request_id, at_ms)
        if known is not None or not memory.moved:
            return known
        record = self._state.request(request_key(decider.name, key, request_id))
        if record is None:
            return None
        found = moved_of(record, request_id)
        is_one_of_last = memory.moved["count"] - found.number <= entries_for(decider)
        return found.body_hash if is_one_of_last and found.until_ms > at_ms else None

    def move(self, decider: Decider[Any], key: str, moved: Sequence[MovedRequest], at_ms: int) -> None:
        """Give requests entries of their own; the entries of as many older ones go, and some that have expired."""
        state, name = self._state, decider.name
        first, end = moved[0].number, moved[-1].number + 1
        oldest = end - entries_for(decider)
        for each in moved:
            if each.number >= oldest:
                record = moved_record(name, key, each, at_ms)
                state.put_request(request_key(name, key, each.id), record)
        for number in range(max(0, oldest - len(moved)), min(first, oldest)):
            request_id = state.numbered_request(name, key, number)
            if request_id is not None:
                state.put_request(request_key(name, key, request_id), None)
        if self._since_removal <= 0:
            self._since_removal = _EVERY
            for changelog_key in state.expired_requests(at_ms, _AT_ONCE):
                state.put_request(changelog_key, None)
        self._since_removal -= len(moved)
