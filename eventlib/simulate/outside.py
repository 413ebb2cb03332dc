"""What becomes of a call of the outside world: it answers, or one of the ways in which that fails."""

from enum import Enum

from eventlib.simulate.choices import Choices


class Going(Enum):
    """How a call goes; ANSWERS is the harmless one."""

    ANSWERS = "answers"
    TAKES_LONG = "takes its time to answer"
    NEVER_ARRIVES = "never arrives"
    ANSWER_LOST = "acts, and its answer is lost"
    TIMES_OUT = "acts, and answers when nobody listens any more"
    ARRIVES_LATE = "arrives when nobody listens any more"
    ARRIVES_TWICE = "answers, and arrives a second time"
    FAILS = "fails for good"


_SILENT = (Going.NEVER_ARRIVES, Going.ANSWER_LOST, Going.TIMES_OUT, Going.ARRIVES_LATE)
_GOINGS = (*[Going.ANSWERS] * 7, *tuple(Going)[1:])
"""Of two calls, one goes well."""


def how_it_goes(choose: Choices, call: str) -> Going:
    """Choose what becomes of a call."""
    return choose.one_of(f"what becomes of {call}", _GOINGS)


def how_it_is_silent(choose: Choices, call: str) -> Going:
    """Choose what becomes of a call that is not answered."""
    return choose.one_of(f"how {call} is not answered", _SILENT)
