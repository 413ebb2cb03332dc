"""One connection of an HTTP server, within the server's limits.

Uvicorn bounds the idle time between two requests, and nothing else of what a client may hold: the size of headers,
the time that headers, bodies and answers take, and the connections are bounded here.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Any, Literal

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from eventlib.http.admission import Admission
from eventlib.http.limits import HttpLimits

ACCEPTED_AT_ONCE = 16
"""How many connections asyncio accepts at a time, and so how many errors it logs at a time when no descriptor is left."""
_PIPELINED = 16
_FAREWELL_S = 1.0


class BoundedProtocol(HttpToolsProtocol):
    """One connection: a client that is over a limit gets a short answer, and is disconnected.

    Guarantee: a connection ends in bounded time unless requests are answered on it, or an answer is being read.
    """

    def __init__(self, *arguments: Any, admission: Admission, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._admission = admission
        self._limits = admission.limits
        self._is_over = False
        self._reading: Literal["nothing", "head", "body"] = "nothing"
        self._head_bytes = 0
        self._body_bytes = 0
        self._has_message_ended = False
        self._refusal = HTTPStatus.BAD_REQUEST
        self._deadline: asyncio.TimerHandle | None = None
        self._began_at = 0.0
        self._unread: asyncio.TimerHandle | None = None

    # --- the connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Take a connection, or refuse it."""
        super().connection_made(transport)
        self._is_over = not self._admission.enter(self._peer)
        if not self._is_over:
            self._admission.waits(self._peer, self, transport.abort)
            self._begin_deadline(self._limits.header_s)
        else:
            self._turn_away()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        self._admission.leave(self._peer)
        self._admission.is_busy(self._peer, self)
        self._end_deadline()
        super().connection_lost(exc)
        self._end_unread()

    @property
    def _peer(self) -> str:
        return self.client[0] if self.client else ""

    def _turn_away(self) -> None:
        """Answer 503 before a request is read, so that refusing costs next to nothing."""
        if not self._admission.has_room_for_farewell:
            self.transport.abort()
            return
        self._answer_last(HTTPStatus.SERVICE_UNAVAILABLE)

    # --- what is read

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        if self._is_over:
            return
        self._has_message_ended = False
        super().data_received(data)
        if self._is_over or self.transport.is_closing():
            return
        if self._reading == "head" and not self._has_message_ended:
            self._head_bytes += len(data)
            if self._head_bytes > self._limits.header_bytes:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
                return
        self._watch()

    def on_message_begin(self) -> None:
        """Begin with a request's head."""
        super().on_message_begin()
        self._reading, self._head_bytes = "head", 0

    def on_headers_complete(self) -> None:
        """Refuse a head that is too large, else start the request."""
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > self._limits.header_bytes or len(self.headers) > self._limits.header_count:
            self._refusal = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            raise OverflowError("headers")
        if len(self.pipeline) >= _PIPELINED:
            self._refusal = HTTPStatus.SERVICE_UNAVAILABLE
            raise OverflowError("pipelined requests")
        self._end_deadline()
        self._reading, self._body_bytes = "body", 0
        super().on_headers_complete()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Read a header; one of a trailer, which no application here reads, is dropped."""
        if self._reading == "head":
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        """Read a part of a body."""
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that a request was read."""
        self._end_deadline()
        self._admission.is_busy(self._peer, self)
        self._reading, self._has_message_ended = "nothing", True
        super().on_message_complete()

    # --- how long it takes

    def _watch(self) -> None:
        """Bound the time of what is being read; of a next head only once the request before it was answered."""
        if self._deadline is not None:
            return
        if self._reading == "body":
            self._begin_deadline(self._limits.body_s)
        elif self.cycle is None or self.cycle.response_complete:
            self._begin_deadline(self._limits.header_s)

    def _begin_deadline(self, after_s: float) -> None:
        self._began_at = self.loop.time()
        self._deadline = self.loop.call_later(after_s, self._is_late)

    def _end_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _is_late(self) -> None:
        if self._reading == "body":
            limits = self._limits
            allowed = min(limits.body_s + self._body_bytes / limits.body_rate, limits.body_longest_s)
            left = self._began_at + allowed - self.loop.time()
            if left > 0:
                self._deadline = self.loop.call_later(left, self._is_late)
                return
        self._deadline = None
        self._refuse(HTTPStatus.REQUEST_TIMEOUT)

    # --- what is written

    def pause_writing(self) -> None:
        """Begin to wait for a slow reader."""
        super().pause_writing()
        self._begin_unread()
        self._admission.waits(self._peer, self, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on with a reader that has read."""
        self._end_unread()
        self._admission.is_busy(self._peer, self)
        super().resume_writing()

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the client to read the last answer."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._begin_unread()
            return
        if self._reading == "head":
            self._watch()
        is_idle = self._reading != "body" and self.cycle.response_complete
        if is_idle and not self.transport.get_write_buffer_size():
            self._admission.waits(self._peer, self, self.transport.abort)

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection, also where the last answer was not read."""
        super().timeout_keep_alive_handler()
        self._begin_unread()

    def _begin_unread(self) -> None:
        if self._unread is None:
            self._unread = self.loop.call_later(self._limits.write_s, self.transport.abort)

    def _end_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def send_400_response(self, msg: str) -> None:
        """Answer what cannot be read, or is over a limit."""
        del msg  # the status has it
        self._refuse(self._refusal)

    def _refuse(self, status: HTTPStatus) -> None:
        """Close the connection; with an answer where none has begun, and the client has sent something."""
        self._is_over = True
        cycle = self.cycle
        has_asked = self._reading != "nothing" or status is not HTTPStatus.REQUEST_TIMEOUT
        is_answering = cycle is not None and cycle.response_started and not cycle.response_complete
        is_waiting = cycle is not None and not cycle.response_started and self._reading != "body"
        if has_asked and not (is_answering or is_waiting or self.pipeline):
            self._answer_last(status)
            self.transport.pause_reading()
        else:
            self.transport.close()
            self._begin_unread()
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()

    def _answer_last(self, status: HTTPStatus) -> None:
        """Answer, and leave the client some time to read that: closed at once, what it sends would undo the answer."""
        text = status.phrase.encode()
        again = b"retry-after: 1\r\n" if status is HTTPStatus.SERVICE_UNAVAILABLE else b""
        head = b"content-type: text/plain\r\ncontent-length: %d\r\n%sconnection: close\r\n\r\n" % (len(text), again)
        self.transport.write(STATUS_LINE[status] + head + text)
        if not self.transport.can_write_eof():  # over TLS
            self.transport.close()
        else:
            self.transport.write_eof()
        self._end_unread()
        self._unread = self.loop.call_later(_FAREWELL_S, self.transport.abort)


def server_options(limits: HttpLimits, protocol: type[BoundedProtocol] = BoundedProtocol) -> dict[str, Any]:
    """Return the options of a uvicorn server that keeps its clients within limits."""
    connection: Callable[..., BoundedProtocol] = partial(protocol, admission=Admission(limits))
    return {"http": connection, "backlog": ACCEPTED_AT_ONCE, "timeout_keep_alive": limits.idle_s}
