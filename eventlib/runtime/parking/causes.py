"""Fingerprints of causes: the same failure at the same place of the same code, whatever values its text has."""

import re
from hashlib import sha256

_LENGTH = 12
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
