"""Faulty disks: what a disk may return instead of what was written, and how a log must react."""

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any

from eventlib.errors import DamagedRecord
from eventlib.log.base import Record, TopicPartition
from eventlib.log.checksum import corrected, partition_seed, record_checksum, row_checksum
from eventlib.log.rules import NO_RECORD, decode_headers, encode_headers, why_changed
from eventlib.simulation.owner import Owner
from eventlib.simulation.plan import Departure
from eventlib.simulation.scheduler import ScheduledMove
from eventlib.simulation.world import World

_VALUE = 2  # among a record's columns


class Lie(Enum):
    """How a record's bytes differ from what was written."""

    FLIP = "one bit of it flips"
    TORN = "the second half of its page was never written"
    MISDIRECTED = "its place has another record's bytes"
    GONE = "it is gone"


def checked(written: Record, lie: Lie, other: Record, bit: int) -> Record:
    """Return what a log returns for a damaged record; `other` is the record elsewhere.

    Raises: DamagedRecord where the checksum cannot restore it.
    """
    place = written[:3]
    resume_at = written.offset + 1
    if lie is Lie.GONE:
        raise DamagedRecord(NO_RECORD, *place, resume_at)
    checksum_of = partial(row_checksum, partition_seed(*place[:2]), written.offset)
    columns, checksum = _lied(written, lie, other, bit), record_checksum(written)
    if checksum_of(columns) != checksum:
        found = corrected(columns, checksum, checksum_of)
        if found is None:
            stands = _record(place, columns)
            raise DamagedRecord(why_changed(checksum), *place, resume_at, stands)
        columns = found
    return _record(place, columns)


def _lied(written: Record, lie: Lie, other: Record, bit: int) -> tuple[Any, ...]:
    columns = [*written[3:14], encode_headers(written.headers)]
    value = written.value or b""
    match lie:
        case Lie.FLIP if value:
            place = bit // 8 % len(value)
            columns[_VALUE] = value[:place] + bytes((value[place] ^ 1 << bit % 8,)) + value[place + 1 :]
        case Lie.TORN if value:
            columns[_VALUE] = value[: len(value) // 2] + bytes(len(value) - len(value) // 2)
        case Lie.MISDIRECTED:
            columns = [*other[3:14], encode_headers(other.headers)]
        case _:
            pass
    return tuple(columns)


def _record(place: tuple[Any, ...], columns: tuple[Any, ...]) -> Record:
    return Record._make((*place, *columns[:-1], decode_headers(columns[-1])))


_NEWEST = 6


class DiskFaults:
    """Damages disks as a plan says, and repairs them; `tell` adds a line to the story: what happened, and to whom."""

    def __init__(self, world: World, tell: Callable[[str, Owner], None]) -> None:
        self._world = world
        self._tell = tell
        world.doers |= {"repair": self._repair, "see all": self._see_all}

    def lie(self, owner: Owner, departure: Departure) -> bool:
        """Damage a disk, if that is possible now; return whether the owner has to restart to notice it."""
        lies = tuple(Lie)
        how = departure.how % (len(lies) + 2)
        behind = [place for place in owner.places if owner.reader.is_behind(place)]
        if how < len(lies) and behind:
            self._lie_about_input(owner, behind[departure.long % len(behind)], lies[how], departure)
        elif how == len(lies) and behind:
            self._hide_newest(owner, behind[departure.long % len(behind)], departure)
        elif how > len(lies) and self._world.disks.lose_newest(owner.task):
            self._tell("its disk loses the last write of its store", owner)
        else:
            return self._lie_about_state(owner, lies[how % len(lies)], departure)
        return False

    def stop(self) -> None:
        """Repair everything, and make all records visible."""
        self._world.port.lies.clear()
        self._world.port.stale.clear()

    def _lie_about_input(self, owner: Owner, place: TopicPartition, lie: Lie, departure: Departure) -> None:
        offset = owner.reader.position(place)
        stays = (*place, offset)
        if owner.reader.next_of(place).offset == offset and self._lie(owner, stays, lie, departure):
            self._world.add(ScheduledMove("repair", None, stays), after=1 + departure.long)

    def _lie_about_state(self, owner: Owner, lie: Lie, departure: Departure) -> bool:
        """Damage one of the newest records of its changelog, and nothing else: that is what lets the task restore it."""
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

    def _repair(self, move: ScheduledMove) -> None:
        """Repair a record, and retry what was parked because of it."""
        if self._world.port.lies.pop(move.what, None) is not None:
            self._world.story.note("{}/{}/{} is repaired".format(*move.what))
            self._world.look_all()

    def _hide_newest(self, owner: Owner, place: TopicPartition, departure: Departure) -> None:
        port = self._world.port
        port.stale[place] = 1 + departure.long % (port.known_end(place) - owner.reader.position(place))
        self._tell(f"reads of {place[0]}/{place[1]} miss the newest records", owner)
        self._world.add(ScheduledMove("see all", None, place), after=1 + departure.long // 4)

    def _see_all(self, move: ScheduledMove) -> None:
        self._world.port.stale.pop(move.what, None)
        self._world.look_all()
