"""The streams that commands print to: no control character reaches the terminal."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from eventlib.values import escaped_lines


class SafeStream:
    """A stream that lets what is written to it steer no terminal: text of others goes by here in the end.

    Bytes pass as they are, and so does what a console of Rich's has made of text: `output.terminal` makes those.
    """

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream  # where Rich writes to in its place

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)

    def write(self, text: str) -> int:
        """Write text with an escape in place of each control character but line breaks and tabs."""
        return self.rich_proxied_file.write(escaped_lines(text))


@contextmanager
def safe_streams() -> Iterator[None]:
    """Let all that is printed go through `SafeStream` until the context is left."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast("TextIO", SafeStream(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
