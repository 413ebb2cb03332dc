"""The findings of an examination."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One finding: the check that made it, its severity, what was found, and the remedy.

    An error keeps services from running, or loses what they write; a warning does so only when another fault occurs.
    """

    check: str
    verdict: Literal["ok", "warning", "error"]
    what: str
    remedy: str = ""


def fine(check: str, what: str) -> Diagnosis:
    """Return a finding without a fault."""
    return Diagnosis(check, "ok", what)


def warning(check: str, what: str, remedy: str) -> Diagnosis:
    """Return a possible fault."""
    return Diagnosis(check, "warning", what, remedy)


def error(check: str, what: str, remedy: str) -> Diagnosis:
    """Return a fault."""
    return Diagnosis(check, "error", what, remedy)


def some(names: list[str], most: int = 4) -> str:
    """Return names as part of a sentence."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
