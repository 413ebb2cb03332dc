"""Keeps a flood of equal errors out of the log."""

import logging
from time import monotonic

_KINDS = 1_000


class RepeatedErrors(logging.Filter):
    """Passes `most` records of a kind in `window_s` seconds, and counts the others; a kind is a message without its values.

    Guarantee: the first record of a window reports how many of the one before were left out.
    """

    def __init__(self, most: int = 5, window_s: float = 10.0) -> None:
        super().__init__()
        self._most = most
        self._window_s = window_s
        self._seen: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is logged."""
        kind, now = str(record.msg).partition("\n")[0], monotonic()
        began, count = self._seen.get(kind, (now, 0))
        left_out = 0
        if now - began >= self._window_s:
            began, count, left_out = now, 0, max(0, count - self._most)
        if len(self._seen) >= _KINDS:
            self._seen.clear()
        self._seen[kind] = began, count + 1
        if left_out:
            record.msg = f"{record.msg} ({left_out} more like this were left out)"
        return count < self._most


_FILTER = RepeatedErrors()


def limit_repeated_errors() -> None:
    """Limit what a flood of connections or of malformed requests writes to this process's log."""
    for name in ("asyncio", "uvicorn.error", "eventlib.http"):
        logging.getLogger(name).addFilter(_FILTER)
