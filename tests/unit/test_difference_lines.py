"""What a reader of a pull request sees of a decision that changes: the lines of its difference."""

from eventlib.replay.difference_lines import difference_lines
from eventlib.replay.report import ComparedEvent


def event(type_: str = "Taken", key: str = "7", topic: str = "t", error: str = "", **facts: object) -> ComparedEvent:
    return ComparedEvent(type_, key, topic, facts, error)


def test_where_nothing_was_emitted_or_is_it_is_written_down() -> None:
    taken = event(order_id="7", cents=1)
    assert difference_lines([taken], []) == [("-", "Taken 7 cents=1"), ("+", "(nothing is emitted)")]
    assert difference_lines([], [taken]) == [("-", "(nothing was emitted)"), ("+", "Taken 7 cents=1")]
    assert difference_lines([], [], "the handler raises") == [(" ", "the handler raises")]


def test_an_event_that_stays_shows_the_fields_that_differ() -> None:
    then = event(order_id="7", cents=1, lines=[{"sku": "A"}], notes={"a": "b"}, gone=None)
    now = event(topic="u", order_id="7", cents=2, lines=[{"sku": "B"}], notes={}, added="")
    assert difference_lines([then], [now]) == [
        (" ", "Taken 7"),
        ("-", "  (topic): t"),
        ("+", "  (topic): u"),
        ("-", "  cents: 1"),
        ("+", "  cents: 2"),
        ("-", "  lines[0].sku: A"),
        ("+", "  lines[0].sku: B"),
        ("-", "  notes.a: b"),
        ("-", "  gone: null"),
        ("+", "  notes: {}"),
        ("+", '  added: ""'),
    ]


def test_another_event_in_its_place_shows_both_and_the_unchanged_are_left_out() -> None:
    first, last = event("First"), event("Last")
    lines = difference_lines([first, event("Old", a=[]), last], [first, event("New"), last])
    assert lines == [("-", "Old 7 a=[]"), ("+", "New 7")]


def test_an_event_that_cannot_be_read_any_more_shows_why_and_no_fields() -> None:
    then, now = event(error="no such field"), event(cents=1)
    assert difference_lines([then], [now]) == [(" ", "Taken 7 as it was emitted: no such field")]
    assert difference_lines([then], [])[0] == ("-", "Taken 7 no such field")


def test_a_long_difference_is_cut_and_counted() -> None:
    lines = difference_lines([], [event(key=str(n)) for n in range(1_030)], "why")
    assert len(lines) == 25
    assert lines[-1] == (" ", "… and 1,008 lines more")
