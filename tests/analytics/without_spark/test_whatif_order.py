"""What orders an alternative past: causes within a millisecond, and keys that sagas share."""

from collections import deque

import pytest

from analytics.whatif.components import joined
from analytics.whatif.figures import Figure
from analytics.whatif.moment import Inputs, Item, MomentTask, Slot, in_causal_order
from eventlib.errors import WiringError
from eventlib.model.record import Record
from eventlib.runtime.records import JournalEntry, Step

NOW = 1_000


def item(name: str, at_ms: int = NOW, cause: tuple[str, str] | None = None) -> Item:
    return Item(Slot("topic", 0, 0, name, at_ms, cause))


def played(*tasks: tuple[str, list[Item]], there: frozenset[str] = frozenset()) -> list[str]:
    done = list[str]()
    work = [MomentTask(service, deque(items)) for service, items in tasks]
    for number, each in in_causal_order(NOW, work, lambda slot: slot.id in there):
        assert each.slot is not None
        done.append(f"{work[number].service}:{each.slot.id}")
    return done


def test_an_input_comes_after_what_emitted_it_in_the_same_millisecond() -> None:
    consumer = "stock", [item("b", cause=("order", "a")), item("c")]
    producer = "order", [item("x"), item("a")]
    assert played(consumer, producer) == ["order:x", "order:a", "stock:b", "stock:c"]


def test_what_is_there_already_or_was_there_before_waits_for_nothing() -> None:
    old = item("old", at_ms=NOW - 1, cause=("order", "z"))
    consumer = "stock", [old, item("b", cause=("order", "a"))]
    producer = "order", [item("a")]
    assert played(consumer, producer, there=frozenset({"b"})) == ["stock:old", "stock:b", "order:a"]


def test_what_nobody_here_emits_holds_up_nothing() -> None:
    one = "stock", [item("b", cause=("order", "deadline")), item("c")]
    other = "order", [item("d", cause=("stock", "c"))]
    assert played(one, other) == ["stock:b", "stock:c", "order:d"]


def test_a_run_takes_all_inputs_up_to_its_last() -> None:
    inputs = Inputs()
    inputs.follow(["topic"])
    for offset in range(5):
        inputs.add(Record("topic", 0, offset, NOW, b"k", b"", f"e{offset}"), None)
    steps = (Step("run", "topic", 1, 2), Step("drop", "topic", 2, 2, "order", "k", "duplicate"))
    items = [*inputs.items(JournalEntry("", NOW, steps))]
    assert [each.slot.id for each in items if each.slot] == ["e0", "e1", "e2"]
    assert [sorted(each.refused) for each in items] == [[], [], ["order"]]
    assert [slot.id for slot in inputs.left()] == ["e3", "e4"]


def test_sagas_that_share_a_key_through_others_are_one_component() -> None:
    roots = joined([("1", "sku:A"), ("2", "sku:A"), ("2", "sku:B"), ("3", "sku:B"), ("4", "sku:C"), ("5", "sku:C")])
    assert roots["1"] == roots["2"] == roots["3"] != roots["4"] == roots["5"]


@pytest.mark.parametrize("text", ["money", "money=Order", "Money=A.b", "money=A.b:", "=A.b"])
def test_a_sum_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(WiringError, match="--sum"):
        Figure.parsed(text)
