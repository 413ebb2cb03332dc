"""The streams that commands print to: no control character reaches the terminal."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from eventlib.values import escaped_lines


class SafeStream:
    """A stream that lets no text written to it control the terminal; external text ends up here.

    Bytes pass unchanged, and so does the text of a Rich console: `output.terminal` makes those.
    """

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream  # where Rich writes to instead

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)

    def write(self, text: str) -> int:
        """Write text, with control characters escaped except line breaks and tabs."""
        return self.rich_proxied_file.write(escaped_lines(text))


@contextmanager
def safe_streams() -> Iterator[None]:
    """Print everything through `SafeStream` until the context is left."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast("TextIO", SafeStream(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
