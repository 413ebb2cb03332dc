"""Faulty disks: what a disk may return instead of what was written, and how a log must react."""

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any

from eventlib.errors import DamagedRecord
from eventlib.log.base import TopicPartition
from eventlib.log.checksum import partition_seed, record_checksum, row_checksum
from eventlib.log.rules import NO_RECORD, columns_of, decode_headers, why_changed
from eventlib.model.record import Record
from eventlib.simulation.owner import Owner
from eventlib.simulation.plan import Departure
from eventlib.simulation.scheduler import ScheduledMove
from eventlib.simulation.world import World

_VALUE = 2  # among a record's columns


class Corruption(Enum):
    """How a record's bytes differ from what was written."""

    FLIP = "one bit of it flips"
    TORN = "the second half of its page was never written"
    MISDIRECTED = "its place has another record's bytes"
    GONE = "it is gone"


def checked(written: Record, corruption: Corruption, other: Record, bit: int) -> Record:
    """Return what a log returns for a damaged record; `other` is the record elsewhere.

    Raises: DamagedRecord where it does not match its checksum.
    """
    location = written.location
    resume_at = written.offset + 1
    if corruption is Corruption.GONE:
        raise DamagedRecord(NO_RECORD, *location, resume_at)
    checksum_of = partial(row_checksum, partition_seed(*location[:2]), written.offset)
    columns, checksum = _corrupted(written, corruption, other, bit), record_checksum(written)
    if checksum_of(columns) != checksum:
        raise DamagedRecord(why_changed(checksum), *location, resume_at, _record(location, columns))
    return _record(location, columns)


def _corrupted(written: Record, corruption: Corruption, other: Record, bit: int) -> tuple[Any, ...]:
    columns = [*columns_of(written)]
    value = written.value or b""
    match corruption:
        case Corruption.FLIP if value:
            at = bit // 8 % len(value)
            columns[_VALUE] = value[:at] + bytes((value[at] ^ 1 << bit % 8,)) + value[at + 1 :]
        case Corruption.TORN if value:
            columns[_VALUE] = value[: len(value) // 2] + bytes(len(value) - len(value) // 2)
        case Corruption.MISDIRECTED:
            columns = [*columns_of(other)]
        case _:
            pass
    return tuple(columns)


def _record(location: tuple[Any, ...], columns: tuple[Any, ...]) -> Record:
    return Record(*(*location, *columns[:-1], decode_headers(columns[-1])))


_NEWEST = 6


class DiskFaults:
    """Damages disks as a plan says, and repairs them; `report` adds a line to the story: what happened, and to whom."""

    def __init__(self, world: World, report: Callable[[str, Owner], None]) -> None:
        self._world = world
        self._report = report
        world.doers |= {"repair": self._repair, "see all": self._see_all}

    def corrupt(self, owner: Owner, departure: Departure) -> bool:
        """Damage a disk, if that is possible now; return whether the owner has to restart to notice it."""
        corruptions = tuple(Corruption)
        how = departure.how % (len(corruptions) + 2)
        behind = [topic_partition for topic_partition in owner.places if owner.reader.is_behind(topic_partition)]
        if how < len(corruptions) and behind:
            self._corrupt_input(owner, behind[departure.long % len(behind)], corruptions[how], departure)
        elif how == len(corruptions) and behind:
            self._hide_newest(owner, behind[departure.long % len(behind)], departure)
        elif how > len(corruptions) and self._world.disks.lose_newest(owner.task):
            self._report("its disk loses the last write of its store", owner)
        else:
            return self._corrupt_state(owner, corruptions[how % len(corruptions)], departure)
        return False

    def stop(self) -> None:
        """Repair everything, and make all records visible."""
        self._world.port.corruptions.clear()
        self._world.port.stale.clear()

    def _corrupt_input(
        self, owner: Owner, topic_partition: TopicPartition, corruption: Corruption, departure: Departure
    ) -> None:
        offset = owner.reader.position(topic_partition)
        location = (*topic_partition, offset)
        next_one = owner.reader.next_of(topic_partition)
        if next_one is not None and next_one.offset == offset and self._corrupt(owner, location, corruption, departure):
            self._world.add(ScheduledMove("repair", None, location), after=1 + departure.long)

    def _corrupt_state(self, owner: Owner, corruption: Corruption, departure: Departure) -> bool:
        """Damage one of the newest records of its changelog, and nothing else: that is what lets the task restore it."""
        topic_partition = owner.service.changelog.name, owner.task[1]
        end = self._world.port.known_end(topic_partition)
        return (
            end > 0
            and not self._world.port.corruptions
            and self._corrupt(
                owner, (*topic_partition, end - 1 - departure.long % min(end, _NEWEST)), corruption, departure
            )
        )

    def _corrupt(
        self, owner: Owner, location: tuple[str, int, int], corruption: Corruption, departure: Departure
    ) -> bool:
        port, offset = self._world.port, location[2]
        written = port.written((location[0], location[1]), offset, 1)
        if not written or written[0].offset != offset or location in port.corruptions:
            return False
        other = (
            port.written((location[0], location[1]), 0, 1)[0] if corruption is Corruption.MISDIRECTED else written[0]
        )
        port.corruptions[location] = partial(
            checked, corruption=corruption, other=other, bit=7 * departure.long + departure.how
        )
        self._report(f"{'/'.join(map(str, location))} is read wrong: {corruption.value}", owner)
        return True

    def _repair(self, move: ScheduledMove) -> None:
        """Repair a record, and retry what was parked because of it."""
        if self._world.port.corruptions.pop(move.what, None) is not None:
            self._world.story.note("{}/{}/{} is repaired".format(*move.what))
            self._world.add_all_moves()

    def _hide_newest(self, owner: Owner, topic_partition: TopicPartition, departure: Departure) -> None:
        port = self._world.port
        port.stale[topic_partition] = 1 + departure.long % (
            port.known_end(topic_partition) - owner.reader.position(topic_partition)
        )
        self._report(f"reads of {topic_partition[0]}/{topic_partition[1]} miss the newest records", owner)
        self._world.add(ScheduledMove("see all", None, topic_partition), after=1 + departure.long // 4)

    def _see_all(self, move: ScheduledMove) -> None:
        self._world.port.stale.pop(move.what, None)
        self._world.add_all_moves()
