"""Who runs which task: evenly, whole, and with as few moves as that takes."""

from random import Random

import pytest

from eventlib.log.kafka.assignment import SubscribedMember, assign, stand_by


def _members(runs: dict[str, list[int]], generation: int = 1) -> list[SubscribedMember]:
    return [SubscribedMember(name, theirs, generation) for name, theirs in runs.items()]


def test_the_first_member_runs_all() -> None:
    assert assign(4, [SubscribedMember("a", (), -1)]) == {"a": [0, 1, 2, 3]}


def test_a_second_one_takes_half_and_the_first_keeps_its_own() -> None:
    assert assign(5, _members({"a": [0, 1, 2, 3, 4], "b": []})) == {"a": [0, 1, 2], "b": [3, 4]}


def test_who_ran_most_keeps_the_odd_one() -> None:
    assert assign(3, _members({"a": [2], "b": [0, 1]})) == {"a": [2], "b": [0, 1]}


def test_more_members_than_tasks_leave_some_without() -> None:
    assert assign(1, _members({"a": [], "b": [0], "c": []})) == {"b": [0], "a": [], "c": []}


def test_of_two_who_say_that_they_run_a_task_the_newer_generation_does() -> None:
    zombie, rightful = SubscribedMember("zombie", (0, 1, 2, 3), 3), SubscribedMember("rightful", (0, 1), 7)
    assert assign(4, [zombie, rightful]) == {"rightful": [0, 1], "zombie": [2, 3]}


def test_when_all_retire_nobody_gets_anything() -> None:
    assert assign(4, []) == {}
    assert stand_by({}, [], 1) == {}


def test_tasks_that_there_are_not_are_nobodys() -> None:
    assert assign(2, _members({"a": [0, 7, -1], "b": [1]})) == {"a": [0], "b": [1]}


@pytest.mark.parametrize("seed", range(50))
def test_through_joins_and_departures(seed: int) -> None:
    random = Random(seed)
    tasks, runs = random.randint(1, 64), {"0": list[int]()}
    for generation in range(1, 30):
        if random.random() < 0.5 or len(runs) == 1:
            runs[str(generation)] = []
        else:
            runs.pop(random.choice(sorted(runs)))
        after = assign(tasks, _members(runs, generation))
        assert sorted(task for theirs in after.values() for task in theirs) == list(range(tasks))
        sizes = [len(theirs) for theirs in after.values()]
        assert max(sizes) - min(sizes) <= 1
        _assert_no_needless_move(runs, after)
        runs = after


def _assert_no_needless_move(before: dict[str, list[int]], after: dict[str, list[int]]) -> None:
    for name, theirs in after.items():
        lost = set(before[name]) - set(theirs)
        gained = set(theirs) - set(before[name])
        assert not (lost and gained)
        assert len(lost) == max(0, len(before[name]) - len(theirs))


def test_a_task_that_moves_goes_to_who_has_a_copy() -> None:
    left = [SubscribedMember("a", (0, 1), 1, copies=(5,)), SubscribedMember("b", (2, 3), 1, copies=(4,))]
    assert assign(6, left) == {"a": [0, 1, 5], "b": [2, 3, 4]}


def test_evenness_goes_before_copies() -> None:
    left = [SubscribedMember("a", (0, 1), 1), SubscribedMember("b", (2, 3), 1, copies=(4, 5))]
    assert assign(6, left) == {"a": [0, 1, 5], "b": [2, 3, 4]}


def test_a_copy_is_with_somebody_else_and_who_was_the_owner_keeps_one() -> None:
    members = [SubscribedMember("a", (0, 1, 2, 3), 1), SubscribedMember("b", (), -1)]
    runs = assign(4, members)
    assert stand_by(runs, members, 1) == {"a": [2, 3], "b": [0, 1]}


def test_there_are_as_many_copies_as_others() -> None:
    members = [SubscribedMember("a", (), -1)]
    assert stand_by(assign(2, members), members, 1) == {"a": []}
    members = [SubscribedMember(name, (), -1) for name in "abc"]
    assert stand_by(assign(3, members), members, 5) == {"a": [1, 2], "b": [0, 2], "c": [0, 1]}
    assert stand_by(assign(3, members), members, 0) == {"a": [], "b": [], "c": []}


@pytest.mark.parametrize("seed", range(50))
def test_copies_are_spread_and_taken_over(seed: int) -> None:
    """When one dies, the others have a copy of each of its tasks, and all tasks that move go to one that has it."""
    random = Random(seed)
    names = [str(number) for number in range(random.randint(2, 6))]
    tasks, wanted = len(names) * (len(names) - 1) * random.randint(1, 3), random.randint(1, 2)
    members = [SubscribedMember(name, (), -1) for name in names]
    for generation in range(1, 10):
        runs = assign(tasks, members)
        copies = stand_by(runs, members, wanted)
        for name in names:
            assert not set(copies[name]) & set(runs[name])
        held = [task for theirs in copies.values() for task in theirs]
        assert sorted(held) == sorted([*range(tasks)] * min(wanted, len(names) - 1))
        sizes = [len(theirs) for theirs in copies.values()]
        assert max(sizes) - min(sizes) <= max(1, wanted)
        members = [SubscribedMember(name, runs[name], generation, copies[name]) for name in names]
    dead = random.choice(names)
    left = [member for member in members if member.name != dead]
    taken = [task for name, theirs in assign(tasks, left).items() for task in set(theirs) - set(runs[name])]
    cold = [task for name, theirs in assign(tasks, left).items() for task in set(theirs) - {*runs[name], *copies[name]}]
    assert sorted(taken) == sorted(runs[dead])
    assert len(cold) <= len(taken) // 4
