"""What an examination has found."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One finding: which check has made it, how bad it is, what is so, and what to do about it.

    An error keeps services from running, or loses what they write; a warning does so when something else happens.
    """

    check: str
    verdict: Literal["ok", "warning", "error"]
    what: str
    remedy: str = ""


def fine(check: str, what: str) -> Diagnosis:
    """Return that a check has found nothing wrong."""
    return Diagnosis(check, "ok", what)


def warning(check: str, what: str, remedy: str) -> Diagnosis:
    """Return what may become a fault."""
    return Diagnosis(check, "warning", what, remedy)


def error(check: str, what: str, remedy: str) -> Diagnosis:
    """Return a fault."""
    return Diagnosis(check, "error", what, remedy)


def some(names: list[str], most: int = 4) -> str:
    """Return names as a part of a sentence."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
