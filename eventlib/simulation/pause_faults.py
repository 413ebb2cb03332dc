"""Pauses: an operator holds something back or limits it, and has it go on later."""

from collections.abc import Callable

from eventlib.queries.pauses import PauseTarget
from eventlib.simulation.owner import Owner
from eventlib.simulation.plan import Departure
from eventlib.simulation.scheduler import ScheduledMove
from eventlib.simulation.world import World

DAYS_MS = (25 * 3_600_000, 49 * 3_600_000)
AT_REST = 500_000
"""The step at which faults that wait for rest occur: when nothing else is left, and before requests that wait for rest."""


class PauseFaults:
    """Pauses and resumes; `tell` reports a pause, and `jump` lets so many milliseconds pass."""

    def __init__(self, world: World, tell: Callable[[str], None], jump: Callable[[int], None]) -> None:
        self._world = world
        self._tell = tell
        self._jump = jump
        world.doers |= {"a pause lasts": self._outlast, "unpause": self._unpause}

    def begin(self, owner: Owner, departure: Departure) -> None:
        """Pause a service, a decider, a kind of effect or a key, or set a limit, and resume it after a while."""
        world, target = self._world, self._target(owner, departure)
        if target is None or target in world.pausing.targets:
            return
        self._tell(f"an operator pauses {target}")
        world.toggle_pause(target)
        if target.key is not None:  # before the input that it was chosen by, or hardly any would wait
            partition = target.partitions(world.stage.played.service(target.service))[0]
            reads = world.owners[target.service, partition]
            world.do(ScheduledMove("read", reads, (reads.service.control.name, partition)))
        lasts, ends = DAYS_MS[departure.how % len(DAYS_MS)], ScheduledMove("unpause", None, target)
        if departure.long % 2:
            world.add(ends, after=1 + departure.long)
        else:
            world.add(ScheduledMove("a pause lasts", target, lasts), after=AT_REST)

    def _target(self, owner: Owner, departure: Departure) -> PauseTarget | None:
        service = owner.service
        decider = service.deciders[departure.long % len(service.deciders)]
        match departure.how:
            case 0:
                return PauseTarget(service.name)
            case 1:
                return PauseTarget(service.name, decider.name)
            case 2:
                kinds = sorted(name for each in service.deciders for name in (r.__name__ for r in each.effects))
                return PauseTarget(service.name, effect=kinds[departure.long % len(kinds)]) if kinds else None
            case 5 if service.limits:
                return PauseTarget(service.name, limit=sorted(service.limits)[departure.long % len(service.limits)])
            case _:
                return self._key(departure)

    def _key(self, departure: Departure) -> PauseTarget | None:
        """Return the key of an input that is on its way."""
        found = input_on_its_way(self._world, departure)
        if found is None:
            return None
        owner, deciders, key = found
        return PauseTarget(owner.service.name, deciders[departure.long % len(deciders)], key)

    def _outlast(self, move: ScheduledMove) -> None:
        """Let days pass while something is paused, when all else is at rest: deadlines fall due meanwhile."""
        self._jump(move.what)
        self._world.add(ScheduledMove("unpause", None, move.whom), after=AT_REST)

    def _unpause(self, move: ScheduledMove) -> None:
        if move.what in self._world.pausing.targets:
            self._world.story.note(f"an operator resumes {move.what}")
            self._world.toggle_pause(move.what)


def input_on_its_way(world: World, departure: Departure) -> tuple[Owner, list[str], str] | None:
    """Return who reads an input next, the deciders that handle it, and its key; None when there is none to choose."""
    reads = world.agenda.waiting("read")
    if not reads:
        return None
    owner, place = reads[departure.whom % len(reads)][1:]
    if not owner.alive or not owner.reader.is_behind(place):
        return None
    record = owner.reader.next_of(place)
    if record is None:
        return None
    deciders = world.stage.handles.get((owner.service.name, record.type or ""), [])
    return None if record.key is None or not deciders else (owner, deciders, record.key.decode())
