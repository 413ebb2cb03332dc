"""Fingerprints of causes: the same failure at the same place of the same code, whatever values its text has."""

import logging
import re
from collections import Counter
from hashlib import sha256

from eventlib.model.kept_error import KeptError
from eventlib.values import escaped, escaped_lines

_log = logging.getLogger("eventlib.runtime")
_LENGTH = 12
_MOST_CAUSES = 10_000
_MOST_TEXT = 300
_VALUES = re.compile(r"""'[^']*'|"[^"]*"|\b[0-9a-f]{8,}\b|\d+""")


def kind_of(reason: str) -> str:
    """Return a reason without the values in it: `KeyError: 'MT'` and `KeyError: 'IS'` are of one kind."""
    return _VALUES.sub("…", reason)[:_MOST_TEXT]


def cause_of(service: str, about: str, traceback: str, reason: str) -> str:
    """Return the fingerprint of a cause: the service, the decider or effect, where in the code, and the kind of reason."""
    where = [line.strip() for line in traceback.splitlines() if line.strip().startswith("File ")]
    parts = [service, about, *where[-1:], _VALUES.sub("…", reason)]
    return sha256("\x1f".join(parts).encode("utf-8", "replace")).hexdigest()[:_LENGTH]


class NewCauses:
    """Logs each cause once in a process, with its traceback: a warning when it is new, and what follows for debugging.

    Guarantee: what comes from outside is nothing but text to a terminal, and a key begins no line.
    """

    def __init__(self) -> None:
        self.counts = Counter[str]()
        """How many there were, by service."""
        self._known = set[str]()

    def tell(self, service: str, about: str, key: str, failure: KeptError, place: str) -> None:
        """Log that something of a service is parked; `place` is the traceback that its fingerprint has."""
        cause = cause_of(service, about, place, failure.reason)
        if cause in self._known or len(self._known) >= _MOST_CAUSES:
            parts = service, about, escaped(key), cause, escaped(failure.first_line)
            _log.debug("%s: %s %s is parked for cause %s: %s", *parts)
            return
        self._known.add(cause)
        self.counts[service] += 1
        _log.warning(
            "%s: %s %s is parked: %s (cause %s, from now on logged at level DEBUG; `eventlib parked list` has all of it)\n%s",
            *(service, about, escaped(key), escaped(failure.reason), cause, escaped_lines(failure.traceback)),
        )
