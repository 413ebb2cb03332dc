"""What a process keeps of its own appends: only what it has written without a gap, and only while it is read."""

from eventlib.log.sqlite.state import MOST_RECORDS, RecentRecords
from eventlib.model.record import Record


def records(count: int) -> list[Record]:
    return [Record("t", 0, -1, 1, b"k", b"%d" % number) for number in range(count)]


def test_it_is_read_with_offsets_and_up_to_its_end() -> None:
    recent = RecentRecords(10)
    assert recent.extend(10, records(3))
    assert [(each.offset, each.value) for each in recent.read(11, 5, 13) or []] == [(11, b"1"), (12, b"2")]
    assert recent.read(13, 5, 13) == []
    assert recent.read(9, 5, 13) is None, "it was there before"
    assert recent.read(11, 5, 14) is None, "another process has appended since"


def test_appends_that_follow_each_other_are_read_as_one() -> None:
    recent = RecentRecords(10)
    recent.extend(10, records(3))
    recent.extend(13, records(2))
    assert [each.offset for each in recent.read(10, 9, 15) or []] == [10, 11, 12, 13, 14]


def test_a_gap_begins_it_anew() -> None:
    recent = RecentRecords(0)
    recent.extend(0, records(3))
    recent.extend(7, records(2))
    assert recent.read(0, 5, 9) is None
    assert [each.offset for each in recent.read(7, 5, 9) or []] == [7, 8]


def test_what_is_not_read_before_it_has_to_go_is_not_worth_keeping() -> None:
    recent, end = RecentRecords(0), 0
    kept = list[bool]()
    for is_read in (True, False, True):
        if is_read:
            recent.read(end, 1, end)
        kept.append(recent.extend(end, records(MOST_RECORDS + 1)))
        end += MOST_RECORDS + 1
    assert kept == [True, False, True]
