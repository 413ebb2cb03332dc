"""Callbacks of a simulated world: what external systems report by themselves comes when, and how often, the schedule decides."""

from enum import Enum

from eventlib.model.event import Event
from eventlib.simulation.scheduler import ScheduledMove
from eventlib.simulation.world import World


class Fate(Enum):
    """What becomes of a callback; COMES is the harmless one."""

    COMES = "comes"
    TWICE = "comes twice"
    ANEW = "comes twice, under two ids"
    LATE = "comes days late"
    LOST = "never comes"


_LONG = 60
_DAYS = 3


class Callbacks:
    """Publishes what a scenario's external systems report; without `faults` each comes once, and soon."""

    def __init__(self, world: World) -> None:
        self.faults = world.plan.outside
        self._world = world
        self._events: dict[str, Event] = {}
        self._late: dict[str, int] = {}
        world.doers["report"] = self._report

    def look(self) -> None:
        """Ask the external systems what they have to report, after each call of them."""
        world = self._world
        for name, event in world.scenario.callbacks(world.outside).items():
            if name not in self._events:
                self._events[name] = event
                self._begin(name, type(event).__name__)

    def _begin(self, name: str, what: str) -> None:
        choose = self._world.choose
        fate = choose.one_of(f"what becomes of {what}", tuple(Fate)) if self.faults else Fate.COMES
        if fate is not Fate.COMES:
            self._world.faults[f"a callback {fate.value}"] += 1
            self._world.story.note(f"{what} {fate.value}")
        if fate is Fate.LATE:
            self._late[name] = choose.between("after so many deadlines", 1, _DAYS)
        elif fate is not Fate.LOST:
            copies = {Fate.TWICE: (name, name), Fate.ANEW: (name, f"{name} anew")}.get(fate, (name,))
            for copy in copies:
                after = choose.number_of("for steps", _LONG) if self.faults else 0
                self._world.add(ScheduledMove("report", None, (name, copy)), after=after)

    def _report(self, move: ScheduledMove) -> None:
        name, reported_as = move.what
        self._world.publish(self._events[name], f"callback {reported_as}")

    def let_time_pass(self, *, passes: bool) -> bool:
        """Let come what is late: one deadline less is before it, or none, where time does not pass any more."""
        due = [name for name, deadlines in self._late.items() if deadlines <= 1 or not passes]
        self._late = {name: deadlines - 1 for name, deadlines in self._late.items() if name not in due}
        for name in due:
            self._report(ScheduledMove("report", None, (name, name)))
        return bool(due)
