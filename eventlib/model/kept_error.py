"""The form in which an error is kept: in logs, spans, tables and records, where it outlives what raised it."""

from pathlib import Path
from traceback import TracebackException
from typing import NamedTuple

WITHHELD = "its text is withheld, since it may quote personal data"
_LIBRARY = Path(__file__).parents[1]
_OWN = (str(_LIBRARY / "runtime"), str(_LIBRARY / "model" / "decider.py"), "eventlib/runtime/")
"""Where the runtime's own frames are; compiled ones have a path within the project."""
_MOST_FRAMES = 20
_MOST_TEXT = 4_000


class KeptError(NamedTuple):
    """Why something could not be done, and where in the application's code that was."""

    reason: str
    traceback: str = ""

    @classmethod
    def of(cls, error: BaseException, *, personal: bool, during: str = "") -> "KeptError":
        """Return what an application's code raised; the runtime's own frames are left out.

        Guarantee: if the code may have seen `personal` data, only the error's type and the lines that raised it are kept: no
        text, cause, context or note, all of which may quote what it was given.
        """
        trace, reason = TracebackException.from_exception(error), kept_reason(error, personal=personal)
        trace.stack[:] = [frame for frame in trace.stack if not frame.filename.startswith(_OWN)][-_MOST_FRAMES:]
        text = "".join((*trace.stack.format(), reason)) if personal else "".join(trace.format())
        return cls(f"{during}: {reason}" if during else reason, text[-_MOST_TEXT:])

    @property
    def first_line(self) -> str:
        """The first line of the reason."""
        return self.reason.partition("\n")[0]

    @property
    def shortened(self) -> "KeptError":
        """It with a reason that fits beside any input: what a handler raises can quote all that it was given."""
        return self if len(self.reason) <= _MOST_TEXT else self._replace(reason=f"{self.reason[:_MOST_TEXT]} …")


def kept_reason(error: BaseException, *, personal: bool) -> str:
    """Return the reason of `KeptError.of`, where it is not to be known where it was: that costs a hundred times as much."""
    try:
        return f"{type(error).__name__}: {WITHHELD if personal else error}"
    except Exception:  # noqa: BLE001  an error of the application's own may fail to describe itself
        return f"{type(error).__name__}: its text cannot be read, since its __str__ raises"
