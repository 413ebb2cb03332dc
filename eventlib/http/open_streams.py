"""Event streams that are open, and how many each caller has."""

from collections import Counter

from sse_starlette import EventSourceResponse
from starlette.types import Receive, Scope, Send

from eventlib.http.problems import Refusal
from eventlib.http.rate_limit import caller_of


class OpenStreams:
    """Counts the open streams of each caller, who may have `most` at once."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._of = Counter[str]()

    @property
    def count(self) -> int:
        """How many streams are open."""
        return self._of.total()

    def refuse_over_limit(self, scope: Scope) -> None:
        """Refuse one more stream of a caller who has as many as is allowed. Raises: Refusal (429)."""
        if self._of[caller_of(scope)] >= self._most:
            detail = f"this caller has {self._most} event streams open: close one"
            raise Refusal(429, "too-many-streams", detail, headers={"Retry-After": "1"})

    def enter(self, caller: str) -> None:
        """Count a stream as open."""
        self._of[caller] += 1

    def leave(self, caller: str) -> None:
        """Count a stream as closed."""
        self._of[caller] -= 1
        if not self._of[caller]:
            del self._of[caller]


class CountedStream(EventSourceResponse):
    """An event stream that is counted as long as it is open."""

    streams: OpenStreams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        caller = caller_of(scope)
        self.streams.enter(caller)
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.streams.leave(caller)
