"""What a task remembers about a key beside its state: requests that it has answered, for as long as was declared."""

from datetime import timedelta

from eventlib.runtime.keyed_state import NO_MEMORY
from eventlib.runtime.records import Pause

MINUTE = timedelta(minutes=1)


def test_an_answered_request_is_remembered_until_its_time_is_over_and_not_a_moment_longer() -> None:
    memory = NO_MEMORY.with_answered("r", "hash", 1_000, MINUTE)
    assert memory.answer_to("r", 60_999) == "hash"
    assert memory.answer_to("r", 61_000) is None
    assert memory.answer_to("another", 1_000) is None


def test_a_request_without_an_end_is_remembered_beside_one_that_has_an_end() -> None:
    memory = NO_MEMORY.with_answered("always", "a", 1_000, None).with_answered("minute", "m", 1_000, MINUTE)
    assert memory.answer_to("always", 10**15) == "a"
    later = memory.with_answered("another", "b", 61_000, None)
    assert (later.answer_to("always", 61_000), "minute" in later.answered) == ("a", False)


def test_a_pause_names_who_wants_it_and_the_reason_if_there_is_one() -> None:
    assert Pause("service", by="ann").why == "ann"
    assert Pause("service", by="ann", reason="a deployment").why == "ann: a deployment"
