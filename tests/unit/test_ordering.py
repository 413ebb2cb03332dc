"""In which order records of several partitions are told."""

from random import Random

from eventlib.model.record import Record
from eventlib.queries.causal_order import causes_first, in_order


def said(place: str, at_ms: int, event_id: str, cause: str | None = None) -> Record:
    topic, partition, offset = place.split("/")
    return Record(topic, int(partition), int(offset), at_ms, b"k", b"", id=event_id, causation_id=cause)


def by_shelf(place: str, event_id: str, cause: str, sequence: int) -> Record:
    return said(place, 5, event_id, cause).replace(source="stock/shelf", subject="sku", sequence=sequence)


def ids(records: list[Record]) -> list[str | None]:
    return [record.id for record in in_order(records)]


def test_they_are_told_by_time_and_then_by_place() -> None:
    assert ids([said("b/0/0", 5, "late"), said("b/1/0", 4, "x"), said("a/1/7", 4, "y")]) == ["y", "x", "late"]


def test_within_a_millisecond_causes_come_first() -> None:
    chain = [said("c/0/0", 5, "1"), said("b/0/0", 5, "2", "1"), said("a/0/0", 5, "3", "2"), said("b/0/1", 5, "4", "3")]
    for seed in range(20):
        found = Random(seed).sample(chain, len(chain))
        kept = [*(r for r in found if r.topic != "b"), *(r for r in chain if r.topic == "b")]
        assert ids(kept) == ["1", "2", "3", "4"]


def test_a_partitions_own_order_stays_whatever_its_times_and_causes_say() -> None:
    assert ids([said("a/0/0", 9, "1"), said("a/0/1", 3, "2"), said("b/0/0", 5, "0")]) == ["0", "1", "2"]
    assert ids([said("a/0/0", 5, "1", "2"), said("a/0/1", 5, "2")]) == ["1", "2"]


def test_causes_that_go_round_in_a_circle_lose_nothing() -> None:
    assert ids([said("b/0/0", 5, "1", "2"), said("a/0/0", 5, "2", "1"), said("c/0/0", 5, "3", "3")]) == ["2", "1", "3"]


def test_what_a_decider_has_said_of_one_key_stands_in_its_sequence_whatever_partitions_it_fell_into() -> None:
    asked = [said("asked/0/0", 5, "release 1"), said("asked/0/1", 5, "want 2")]
    told = [by_shelf("lines/4/9", "reserved 2", "want 2", 8), by_shelf("lines/9/3", "released 1", "release 1", 7)]
    follows = said("a/0/0", 5, "then", "reserved 2")
    for seed in range(20):
        found = Random(seed).sample([*asked, *told, follows], 5)
        assert ids(found) == ["release 1", "want 2", "released 1", "reserved 2", "then"], seed


def test_where_nothing_tells_they_stay_as_they_are_given() -> None:
    given = [said("c/0/0", 5, "1"), said("a/0/0", 5, "2"), said("b/0/0", 5, "3", "1")]
    assert causes_first(given) == [0, 1, 2]
    assert causes_first([given[2], given[1], given[0]]) == [1, 2, 0]
    assert causes_first([said("b/0/0", 5, "1", "2"), said("a/0/0", 5, "2", "1")]) == [0, 1]


def test_causes_that_are_given_count_instead_of_those_that_records_name() -> None:
    given = [said("b/0/0", 5, "1"), said("a/0/0", 5, "2", "1")]
    assert causes_first(given, ["2", None]) == [1, 0]
    assert causes_first([given[1], given[0]], [None, None]) == [0, 1]
