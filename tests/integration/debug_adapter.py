"""The least of an IDE: attaches to a debugger over the Debug Adapter Protocol, and looks where it has stopped.

Source: https://microsoft.github.io/debug-adapter-protocol/specification
"""

import json
import socket
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self


class Ide:
    """A client of one debugger that waits on a port of this machine."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._file = self._socket.makefile("rb")
        self._sent = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()
        self._socket.close()

    def attach(self) -> None:
        """Attach, and let the program run."""
        self.send("initialize", adapterID="test")
        self.send("attach", justMyCode=True)
        self.event("initialized")
        self.send("configurationDone")

    def send(self, command: str, **arguments: object) -> int:
        """Send a request and return its number."""
        self._sent += 1
        request = {"seq": self._sent, "type": "request", "command": command, "arguments": arguments}
        body = json.dumps(request).encode()
        self._socket.sendall(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        return self._sent

    def ask(self, command: str, **arguments: object) -> Any:
        """Send a request and return what its response says."""
        number = self.send(command, **arguments)
        return self._next(lambda m: m["type"] == "response" and m["request_seq"] == number)["body"]

    def event(self, name: str) -> Any:
        """Wait for an event and return what it says."""
        return self._next(lambda message: message["type"] == "event" and message["event"] == name).get("body")

    def stopped(self) -> tuple[str, int, dict[str, str]]:
        """Wait until the program stops; return the function, the line and the local variables, and let it go on."""
        thread = self.event("stopped")["threadId"]
        frame = self.ask("stackTrace", threadId=thread)["stackFrames"][0]
        scope = self.ask("scopes", frameId=frame["id"])["scopes"][0]
        variables = self.ask("variables", variablesReference=scope["variablesReference"])["variables"]
        self.send("continue", threadId=thread)
        return frame["name"], frame["line"], {each["name"]: each["value"] for each in variables}

    def _next(self, is_wanted: Callable[[Any], bool]) -> Any:
        while True:
            message = self._read()
            if is_wanted(message):
                return message

    def _read(self) -> Any:
        size = 0
        while line := self._file.readline().strip():
            name, _, value = line.partition(b":")
            size = int(value) if name.lower() == b"content-length" else size
        return json.loads(self._file.read(size))
