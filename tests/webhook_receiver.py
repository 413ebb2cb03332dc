"""A receiver of webhooks that does as a test says; signatures and events are read by the reference libraries."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from cloudevents.core.formats.json import JSONFormat
from standardwebhooks import Webhook

from tests.serving import serving

SECRET = "whsec_" + "c2VjcmV0IG9mIHRoZSB0ZXN0cyBvbmx5ISEhISEhISE="

Reply = tuple[int, dict[str, str], bytes]
Decide = Callable[["Delivered"], "Reply | Awaitable[Reply]"]


@dataclass
class Delivered:
    """One request: what it says, and whether it was taken."""

    id: str
    headers: dict[str, str]
    body: bytes
    events: list[Any]

    @property
    def event(self) -> Any:
        (event,) = self.events
        return event


@dataclass
class Receiver:
    """What has come so far; `decide` answers."""

    decide: Decide = lambda _: (204, {}, b"")
    secret: str = SECRET
    came: list[Delivered] = field(default_factory=list)
    taken: list[Delivered] = field(default_factory=list)
    url: str = ""

    def numbers(self, key: str) -> list[int]:
        """The numbers of a key as they were taken for the first time, by the delivery's id."""
        first = dict[str, int]()
        for each in self.taken:
            for event in each.events:
                if event.get_subject() == key:
                    first.setdefault(event.get_id(), event.get_data()["number"])
        return [*first.values()]

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer requests of one connection."""
        while head := (await reader.readuntil(b"\r\n\r\n")).decode("latin-1"):
            lines = head.split("\r\n")[1:-2]
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            body = await reader.readexactly(int(headers["content-length"]))
            Webhook(self.secret).verify(body, headers)
            each = Delivered(headers["webhook-id"], headers, body, events_in(headers, body))
            self.came.append(each)
            reply = self.decide(each)
            status, more, content = reply if isinstance(reply, tuple) else await reply
            if status < 300:
                self.taken.append(each)
            more = {"content-length": str(len(content)), **more}
            fields = "".join(f"{name}: {value}\r\n" for name, value in more.items())
            writer.write(f"HTTP/1.1 {status} X\r\n{fields}\r\n".encode() + content)
            await writer.drain()


def events_in(headers: dict[str, str], body: bytes) -> list[Any]:
    """Read events as the CloudEvents SDK does; a batch, which it has no binding for, one by one by its JSON format."""
    if headers["content-type"].startswith("application/cloudevents-batch"):
        import json

        return [
            from_http_event(
                HTTPMessage({"content-type": "application/cloudevents+json"}, json.dumps(each).encode()), JSONFormat()
            )
            for each in json.loads(body)
        ]
    return [from_http_event(HTTPMessage(headers, body), JSONFormat())]


@asynccontextmanager
async def receiving(decide: Decide | None = None, tls: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    """Listen on a port of the loopback interface."""
    receiver = Receiver() if decide is None else Receiver(decide)
    async with serving(receiver.answer, tls) as port:
        receiver.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{port}/hooks"
        yield receiver
