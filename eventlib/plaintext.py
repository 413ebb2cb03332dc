"""Text from outside: which characters it may not have, and how they are shown where they are there already."""

import re

_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_UNSAFE_IN_LINES = re.compile(_UNSAFE.pattern.replace("\x00-\x1f", "\x00-\x08\x0b-\x1f"))
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def unsafe_in(text: str) -> str | None:
    """Return what a text has that no text from outside may have, such as `U+001B at 3`; None for plain text.

    These are control characters (line breaks and NUL among them), Unicode's line separators, characters that change
    the direction of what follows, and halves of surrogate pairs: they steer terminals, split lines of logs, or make
    one text look like another.

    Source: Unicode Technical Report 36, section 3; the directional characters are those of CVE-2021-42574.
    """
    found = _UNSAFE.search(text)
    return None if found is None else f"U+{ord(found[0]):04X} at {found.start() + 1}"


def escaped(text: str) -> str:
    """Return a text with an escape in place of each character that `unsafe_in` names, so that it stays on one line.

    Valid JSON on one line stays valid, and means the same: such characters are only in strings there.
    """
    return _UNSAFE.sub(_escape, text)


def escaped_lines(text: str) -> str:
    """Return text of several lines as `escaped` does, with its line breaks and tabs."""
    return _UNSAFE_IN_LINES.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    return _SHORT.get(found[0]) or f"\\u{ord(found[0]):04x}"
