"""What differs between two states, or two events, field by field."""

from dataclasses import dataclass
from enum import Enum

from eventlib.model.event import Event
from eventlib.replay.comparison import ABSENT, Change, changes


class Stage(Enum):
    NEW = "new"
    PAID = "paid"


@dataclass(frozen=True)
class Line:
    sku: str
    quantity: int = 1


@dataclass(frozen=True)
class Basket:
    stage: Stage = Stage.NEW
    lines: tuple[Line, ...] = ()
    first: Line | None = None
    notes: tuple[str, ...] = ()


class Ordered(Event, topic="ordered", key="order_id"):
    order_id: str
    cents: int


LAMP, VASE = Line("LAMP"), Line("VASE", 2)


def test_equal_values_have_no_changes() -> None:
    assert changes(Basket(), Basket()) == ()


def test_a_field() -> None:
    assert changes(Basket(), Basket(stage=Stage.PAID)) == (Change("stage", Stage.NEW, Stage.PAID),)


def test_a_field_of_a_field() -> None:
    before, after = Basket(first=LAMP), Basket(first=Line("LAMP", 3))
    assert changes(before, after) == (Change("first.quantity", 1, 3),)
    assert changes(Basket(), before) == (Change("first", None, LAMP),)


def test_what_enters_a_sequence_and_what_leaves_it() -> None:
    before, after = Basket(lines=(LAMP, LAMP)), Basket(lines=(LAMP, VASE))
    assert changes(before, after) == (Change("lines", LAMP, ABSENT), Change("lines", ABSENT, VASE))


def test_another_order_is_a_change_of_the_whole() -> None:
    before, after = Basket(notes=("a", "b")), Basket(notes=("b", "a"))
    assert changes(before, after) == (Change("notes", ("a", "b"), ("b", "a")),)


def test_nothing_has_no_fields() -> None:
    assert changes(None, LAMP) == (Change("sku", ABSENT, "LAMP"), Change("quantity", ABSENT, 1))


def test_equal_numbers_of_another_type_differ() -> None:
    assert changes({"a": 1}, {"a": True}) == (Change("a", 1, True),)


def test_events_and_mappings() -> None:
    assert changes(Ordered(order_id="1", cents=1), Ordered(order_id="1", cents=2)) == (Change("cents", 1, 2),)
    assert changes({"a": {"b": 1}}, {"a": {}, "c": [1]}) == (Change("a.b", 1, ABSENT), Change("c", ABSENT, [1]))


def test_what_cannot_be_counted_is_a_change_of_the_whole() -> None:
    assert changes({"a": [{}]}, {"a": [{}, {}]}) == (Change("a", [{}], [{}, {}]),)


def test_a_sequence_that_only_grows_or_only_shrinks_changes_by_its_elements_alone() -> None:
    one, both = Basket(lines=(LAMP,)), Basket(lines=(LAMP, VASE))
    assert changes(one, both) == (Change("lines", ABSENT, VASE),)
    assert changes(both, one) == (Change("lines", VASE, ABSENT),)


def test_a_sequence_that_becomes_something_else_is_a_change_of_the_whole() -> None:
    for other in (1, "A", None):
        assert changes({"a": ("A",)}, {"a": other}) == (Change("a", ("A",), other),)
        assert changes({"a": other}, {"a": ("A",)}) == (Change("a", other, ("A",)),)
