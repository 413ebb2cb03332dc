"""Disks that lie: about the next input of a task, about what is newest, or about what a store had written."""

from collections.abc import Callable
from functools import partial

from eventlib.log.port import TopicPartition
from eventlib.simulate.agenda import Move
from eventlib.simulate.lies import Lie, checked
from eventlib.simulate.owner import Owner
from eventlib.simulate.plan import Departure
from eventlib.simulate.world import World

_NEWEST = 6


class DiskFaults:
    """Lets disks lie as a plan says, and be repaired; `tell` puts into the story what happened, and to whom."""

    def __init__(self, world: World, tell: Callable[[str, Owner], None]) -> None:
        self._world = world
        self._tell = tell
        world.doers |= {"repair": self._repair, "see all": self._see_all}

    def lie(self, owner: Owner, departure: Departure) -> bool:
        """Let a disk lie to an owner, if it can just now; tell whether the owner has to start again to be lied to."""
        lies = tuple(Lie)
        how = departure.how % (len(lies) + 2)
        behind = [place for place in owner.places if owner.reader.is_behind(place)]
        if how < len(lies) and behind:
            self._lie_about_input(owner, behind[departure.long % len(behind)], lies[how], departure)
        elif how == len(lies) and behind:
            self._hide_newest(owner, behind[departure.long % len(behind)], departure)
        elif how > len(lies) and self._world.disks.lose_newest(owner.task):
            self._tell("its disk loses what its store had written last", owner)
        else:
            return self._lie_about_state(owner, lies[how % len(lies)], departure)
        return False

    def stop(self) -> None:
        """Repair everything, and show all there is."""
        self._world.port.lies.clear()
        self._world.port.stale.clear()

    def _lie_about_input(self, owner: Owner, place: TopicPartition, lie: Lie, departure: Departure) -> None:
        offset = owner.reader.position(place)
        stays = (*place, offset)
        if owner.reader.next_of(place).offset == offset and self._lie(owner, stays, lie, departure):
            self._world.add(Move("repair", None, stays), after=1 + departure.long)

    def _lie_about_state(self, owner: Owner, lie: Lie, departure: Departure) -> bool:
        """Let one of the newest records of its changelog be read wrong, while nothing else is: that is what proves it."""
        place = owner.service.changelog.name, owner.task[1]
        end = self._world.port.known_end(place)
        return (
            end > 0
            and not self._world.port.lies
            and self._lie(owner, (*place, end - 1 - departure.long % min(end, _NEWEST)), lie, departure)
        )

    def _lie(self, owner: Owner, stays: tuple[str, int, int], lie: Lie, departure: Departure) -> bool:
        port, offset = self._world.port, stays[2]
        written = port.written((stays[0], stays[1]), offset, 1)
        if not written or written[0].offset != offset or stays in port.lies:
            return False
        other = port.written((stays[0], stays[1]), 0, 1)[0] if lie is Lie.MISDIRECTED else written[0]
        port.lies[stays] = partial(checked, lie=lie, other=other, bit=7 * departure.long + departure.how)
        self._tell(f"{'/'.join(map(str, stays))} is read wrong: {lie.value}", owner)
        return True

    def _repair(self, move: Move) -> None:
        """Let a record be as it was written again, as after a repair; what was parked of it is tried again."""
        if self._world.port.lies.pop(move.what, None) is not None:
            self._world.story.note("{}/{}/{} is repaired".format(*move.what))
            self._world.look_all()

    def _hide_newest(self, owner: Owner, place: TopicPartition, departure: Departure) -> None:
        port = self._world.port
        port.stale[place] = 1 + departure.long % (port.known_end(place) - owner.reader.position(place))
        self._tell(f"reads of {place[0]}/{place[1]} miss the newest records", owner)
        self._world.add(Move("see all", None, place), after=1 + departure.long // 4)

    def _see_all(self, move: Move) -> None:
        self._world.port.stale.pop(move.what, None)
        self._world.look_all()
