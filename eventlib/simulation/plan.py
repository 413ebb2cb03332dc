"""The plan of a schedule: where it departs from the harmless one, drawn before it begins.

Every departure has its own position (a step, or the n-th move that becomes possible), so that removing one does not move
the others: this lets a failure shrink to a short story.
"""

from enum import Enum
from typing import NamedTuple

from eventlib.simulation.scenario import Choices


class Fault(Enum):
    """The faults other than those of external systems; NOTHING is the harmless one."""

    NOTHING = "nothing"
    TIME = "time passes"
    AGAIN = "a request comes again"
    CRASH = "a process dies"
    STALL = "a process stands still"
    ZOMBIE = "a process is given up for dead"
    BUG = "a handler raises for a while"
    AWAY = "the log is away for a while"
    FLUSH = "local stores reach their disks"
    COMPACTION = "the log is compacted"
    CLOCK = "a clock is wrong"
    HALT = "a service stands still for days"
    BYTES = "a disk lies"
    PAUSE = "an operator pauses, and resumes"
    DEADLY = "a handler or an effect takes its process down"
    LOSS = "retention drops what was not read"


# What is drawn twice as often keeps its position, so that older choices still mean the same.
# DEADLY is drawn as some of the bugs; LOSS is put into a plan by who wants it: what is lost never happens.
_LATER = {Fault.BYTES, Fault.PAUSE, Fault.DEADLY, Fault.LOSS}
FAULTS = (
    *(fault for fault in Fault if fault not in _LATER),
    *(Fault.BUG, Fault.CRASH, Fault.BYTES, Fault.PAUSE),
)


class Departure(NamedTuple):
    """A fault at a step; the three numbers choose its target, kind and duration, as the fault defines them."""

    step: int
    fault: Fault
    whom: int
    how: int
    long: int


class Plan(NamedTuple):
    """One schedule's departures: moves taken out of turn, moves that are delayed, and faults.

    `asked` are the steps at which requests come that do not wait for rest.
    `batches` lets tasks take several inputs at once; `outside` lets external systems fail, `silence` permanently.
    """

    asked: dict[int, int]
    switches: dict[int, int]
    delays: dict[int, int]
    faults: dict[int, list[Departure]]
    batches: bool
    outside: bool
    silence: bool


def drawn_plan(choose: Choices, requests: int) -> Plan:
    """Draw a plan for a schedule of so many requests."""
    span = _STEPS + _STEPS_A_REQUEST * requests
    batches = choose.whether("tasks take several inputs at once", 40)
    outside = choose.whether("the outside world fails", 60)
    silence = outside and choose.whether("some calls are never answered", 50)
    asked = {n: choose.number_of("at step", span) for n in range(requests) if choose.whether("it comes meanwhile", 75)}
    switches, delays, faults = dict[int, int](), dict[int, int](), dict[int, list[Departure]]()
    while choose.whether("another one goes first", 75):
        switches[choose.number_of("at step", span)] = choose.number_of("which", _WIDE)
    while choose.whether("another one comes late", 85):
        delays[choose.number_of("the n-th", span)] = choose.number_of("by steps", _LONG)
    while choose.whether("another fault", 70):
        departure = _departure(choose, span)
        faults.setdefault(departure.step, []).append(departure)
    return Plan(asked, switches, delays, faults, batches, outside, silence)


def _departure(choose: Choices, span: int) -> Departure:
    return Departure(
        choose.number_of("at step", span),
        choose.one_of("fault", FAULTS),
        choose.number_of("to whom", _WIDE),
        choose.number_of("how", _WAYS),
        choose.number_of("for steps", _LONG),
    )


_STEPS = 25
_STEPS_A_REQUEST = 12
_WIDE = 12
_WAYS = 6
_LONG = 60
