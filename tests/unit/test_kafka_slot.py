"""What a reader holds of one partition: in order, once, and no more than it may."""

from eventlib.log.kafka.batches import Chunk, Producing, batches
from eventlib.log.kafka.partition_fetcher import Slot
from eventlib.log.record import Record
from tests.unit.test_kafka_batches import placed

PLACE = ("t", 0)
PRODUCING = Producing(-1, -1, transactional=False, compression=0)


class Reader:
    def __init__(self, room: int = 1_000_000) -> None:
        self._room = room

    def look(self) -> None:
        """Nobody waits."""

    def room(self) -> int:
        return self._room


def chunk(first: int, count: int) -> Chunk:
    """Return a chunk as a broker sends it that was asked for `first`."""
    records = [Record("t", 0, -1, 1, None, b"%d" % n) for n in range(first + count)]
    data = placed([*batches(records, PRODUCING, {}, lambda _: 10**6)])
    return Chunk(PLACE, first, data, ())


def offsets(records: list[Record]) -> list[int]:
    return [record.offset for record in records]


def test_a_batch_that_begins_before_the_position_is_taken_from_there() -> None:
    slot = Slot(Reader(), PLACE, 3)
    slot.deliver(chunk(3, 4))
    assert offsets(slot.take(2)) == [3, 4]
    assert slot.position == 5
    assert offsets(slot.take(10)) == [5, 6]
    assert (slot.position, slot.is_ready) == (7, False)


def test_what_comes_twice_or_too_early_is_left_out() -> None:
    slot = Slot(Reader(), PLACE, 0)
    slot.deliver(chunk(5, 2))
    slot.deliver(chunk(0, 3))
    slot.deliver(chunk(0, 3))
    slot.deliver(chunk(2, 3))
    assert offsets(slot.take(10)) == [0, 1, 2, 3, 4]


def test_it_takes_no_more_than_it_may_hold() -> None:
    slot = Slot(Reader(room=1), PLACE, 0)
    slot.deliver(chunk(0, 3))
    slot.deliver(chunk(3, 3))
    assert (slot.fetched, slot.has_room) == (3, False)
    assert offsets(slot.take(10)) == [0, 1, 2]
    slot.deliver(chunk(3, 3))
    assert offsets(slot.take(10)) == [3, 4, 5]


def test_a_place_ahead_of_the_end_is_waited_for() -> None:
    slot = Slot(Reader(), PLACE, 4)
    slot.fetched = 2  # the end, for now
    slot.deliver(chunk(2, 4))
    assert offsets(slot.take(10)) == [4, 5]


def test_a_reader_goes_past_what_was_deleted_a_little_ahead_and_never_back() -> None:
    slot = Slot(Reader(), PLACE, 3)
    slot.deliver(chunk(3, 4))
    assert slot.go_past(5)
    assert not slot.go_past(4)
    assert not slot.go_past(10_000_000)
    assert offsets(slot.take(10)) == [5, 6]


def test_a_reader_does_not_go_past_damage() -> None:
    slot = Slot(Reader(), PLACE, 0)
    (batch,) = batches([Record("t", 0, -1, 1, None, b"value")], PRODUCING, {}, lambda _: 10**6)
    slot.deliver(Chunk(PLACE, 0, batch.data.replace(b"value", b"VALUE"), ()))
    assert slot.is_refused
    assert not slot.go_past(1)
