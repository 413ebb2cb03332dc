"""Queues of limited effects in virtual time: no rate is exceeded whoever owns what, and keys and kinds take turns."""

import random
from collections import Counter
from collections.abc import Sequence
from math import inf

import pytest

from eventlib.errors import WiringError
from eventlib.limits import Limit
from eventlib.runtime.effect_queue import Bound, EffectQueue, Share, Ticket

PARTITIONS = 8


def queue_of(limit: Limit, kinds: tuple[str, ...] = ("Charge",), **of_kind: Limit) -> EffectQueue:
    return EffectQueue("gateway", kinds, {"gateway": limit, **of_kind}, PARTITIONS)


def owning(
    limit: Limit, partitions: Sequence[int] = range(PARTITIONS), now: float = 0.0, **of_kind: Limit
) -> EffectQueue:
    queue = queue_of(limit, ("Charge", *of_kind), **of_kind)
    queue.own({partition: {"gateway": limit, **of_kind} for partition in partitions}, now)
    return queue


def put(queue: EffectQueue, key: str, times: int = 1, kind: str = "Charge") -> None:
    for n in range(times):
        queue.wait(Ticket(f"{key}{n}", kind, key, None, 0.0))


def turns(queue: EffectQueue, until: float, now: float = 0.0) -> list[tuple[float, Ticket]]:
    """Let attempts out, each over at once, and return when which one went."""
    found = list[tuple[float, Ticket]]()
    while (at := queue.free_at(now)) <= until:
        now = max(now, at)
        ticket = queue.next(now)
        if ticket is not None:
            found.append((now, ticket))
            queue.end(ticket)
    return found


def excess(times: Sequence[float], per_second: float) -> float:
    """Return the most attempts that were above the rate in any span of time."""
    tokens = least = most = 0.0
    before = 0.0
    for at in times:
        tokens += 1 - (at - before) * per_second
        before = at
        least = min(least, tokens - 1)
        most = max(most, tokens - least)
    return most


def test_a_rate_is_kept_from_the_first_second_on() -> None:
    queue = owning(Limit(per_second=50))
    put(queue, "a", 1_000)
    times = [at for at, _ in turns(queue, until=10)]
    assert len(times) == 500
    assert excess(times, 50) <= 1 + 1e-6


def test_a_burst_is_saved_up_while_nothing_waits() -> None:
    queue = owning(Limit(per_second=10, burst=20))
    put(queue, "a", 100)
    times = [at for at, _ in turns(queue, until=7, now=5)]
    assert times.count(5) == 20
    assert len(times) == 20 + 20


@pytest.mark.parametrize("seed", range(20))
def test_all_owners_together_keep_the_rate_while_tasks_move(seed: int) -> None:
    """Tasks move among four processes all the time; each has always more waiting than it may ask."""
    rng = random.Random(seed)
    limit, now = Limit(per_second=100), 0.0
    owners = {partition: rng.randrange(4) for partition in range(PARTITIONS)}
    queues = [queue_of(limit) for _ in range(4)]

    def share() -> None:
        for number, queue in enumerate(queues):
            queue.own({p: {"gateway": limit} for p, owner in owners.items() if owner == number}, now)

    share()
    for queue in queues:
        put(queue, "a", 1_000)
    went = list[float]()
    for _ in range(100):
        until = now + rng.random() / 10
        for queue in queues:
            went += [at for at, _ in turns(queue, until, now)]
        now = until
        owners[rng.randrange(PARTITIONS)] = rng.randrange(4)
        share()
    went.sort()
    assert excess(went, 100) <= 4 + 1e-6  # one at once for each process
    assert len(went) > 100 * now * 0.8


def test_without_a_task_nothing_goes_out() -> None:
    queue = queue_of(Limit(per_second=100))
    put(queue, "a")
    assert queue.free_at(1e9) == inf
    assert queue.next(1e9) is None


@pytest.mark.parametrize("concurrent", [8, 10, 23])
def test_the_owners_shares_of_concurrent_calls_add_up(concurrent: int) -> None:
    out = 0
    for partition in range(PARTITIONS):
        queue = owning(Limit(concurrent=concurrent), [partition])
        put(queue, "a", 100)
        while queue.next(0) is not None:
            out += 1
    assert out == concurrent


def test_a_call_that_ends_makes_room_for_one_more() -> None:
    queue = owning(Limit(concurrent=8))
    put(queue, "a", 10)
    out = [ticket for _ in range(9) if (ticket := queue.next(0))]
    assert (len(out), queue.free_at(0)) == (8, inf)
    queue.end(out[0])
    assert queue.free_at(0) == 0
    assert queue.next(0) is not None
    assert queue.next(0) is None


def test_one_customers_100_000_orders_delay_anothers_by_one_turn_each() -> None:
    queue = owning(Limit(per_second=100, key="customer_id"))
    put(queue, "large", 100_000)
    large = turns(queue, until=10)
    put(queue, "small", 50)
    after = turns(queue, until=20, now=10)
    small = [at for at, ticket in after if ticket.key == "small"]
    assert len(large) == 1_000
    assert len(small) == 50
    assert small[-1] - 10 <= 2 * 50 / 100 + 0.01  # alone it would take 0.5 s; its share is a half
    assert len(after) >= 999  # and the rate is used in full


def test_many_customers_take_turns_one_by_one() -> None:
    queue = owning(Limit(per_second=1_000, key="customer_id"))
    waiting = {f"customer {n}": 1 + 50 * n for n in range(40)}
    for key, times in waiting.items():
        put(queue, key, times)
    served = Counter[str]()
    for _, ticket in turns(queue, until=4):
        served[ticket.key] += 1
        still = [served[key] for key, times in waiting.items() if served[key] < times]
        assert max(served.values()) - min(still, default=max(served.values())) <= 1


def test_each_key_has_its_own_rate_and_holds_up_no_other() -> None:
    queue = owning(Limit(per_second=100, key="customer_id", each=Limit(per_second=5)))
    put(queue, "large", 1_000)
    for n in range(30):
        put(queue, f"small {n}", 2)
    went = turns(queue, until=10)
    times = [at for at, ticket in went if ticket.key == "large"]
    assert excess(times, 5) <= 1 + 1e-6
    assert len(times) >= 45  # it waits behind others at times, and saves nothing up
    assert len(went) == len(times) + 60
    assert max(at for at, ticket in went if ticket.key != "large") <= 1.2


def test_each_key_of_a_decider_has_its_whole_limit_in_its_task() -> None:
    queue = owning(Limit(each=Limit(per_second=5, concurrent=2)), [3])
    put(queue, "a", 1_000)
    assert len(turns(queue, until=10)) == 50
    out = [queue.next(20), queue.next(30), queue.next(40)]
    assert [ticket is None for ticket in out] == [False, False, True]
    put(queue, "b")
    assert queue.next(40) is not None


@pytest.mark.parametrize("each", [Limit(concurrent=1), Limit(per_second=1)])
def test_a_key_that_may_not_go_now_costs_the_next_one_no_turn(each: Limit) -> None:
    queue = owning(Limit(each=each), [3])
    put(queue, "a", 2)
    assert queue.next(20) is not None
    put(queue, "b")
    second = queue.next(20)
    assert second is not None
    assert second.key == "b"


def test_the_bounds_of_keys_that_are_gone_are_dropped() -> None:
    queue = owning(Limit(key="customer_id", each=Limit(per_second=1000)))
    for n in range(20_000):
        put(queue, f"customer {n}")
        turns(queue, until=n + 1, now=n + 0.5)
    assert len(queue._keys) <= 1_001  # noqa: SLF001  its memory is what is tested


def test_kinds_of_effects_take_turns_by_priority_and_none_starves() -> None:
    queue = owning(Limit(per_second=100), Refund=Limit(priority=3))
    put(queue, "a", 1_000)
    put(queue, "a", 1_000, kind="Refund")
    kinds = [ticket.kind for _, ticket in turns(queue, until=10)]
    assert Counter(kinds) == {"Refund": 750, "Charge": 250}
    assert all("Charge" in kinds[n : n + 5] for n in range(990))


def test_a_kind_that_did_not_wait_saves_up_no_turns() -> None:
    queue = owning(Limit(per_second=100), Refund=Limit())
    put(queue, "a", 1_000)
    turns(queue, until=5)
    put(queue, "b", 100, kind="Refund")
    assert Counter(ticket.kind for _, ticket in turns(queue, until=6, now=5)) == {"Charge": 50, "Refund": 50}


def test_a_bulkhead_keeps_a_slow_kind_from_taking_all_calls() -> None:
    queue = owning(Limit(concurrent=16), Slow=Limit(concurrent=8))
    put(queue, "a", 100, kind="Slow")
    put(queue, "a", 100)
    out = Counter(ticket.kind for _ in range(20) if (ticket := queue.next(0)))
    assert out == {"Slow": 8, "Charge": 8}


def test_what_is_withdrawn_or_unused_takes_no_turn_from_others() -> None:
    queue = owning(Limit(per_second=1))
    gone = Ticket("gone", "Charge", "a", None, 0.0)
    queue.wait(gone)
    queue.withdraw(gone)
    put(queue, "a")
    put(queue, "b")
    first = queue.next(1)
    assert first is not None
    assert first.id == "a0"
    queue.end(first, unused=True)
    assert queue.next(1) is not None
    assert queue.waiting == 0


def test_a_lower_limit_holds_at_once() -> None:
    queue = owning(Limit(per_second=100, burst=50))
    put(queue, "a", 1_000)
    assert queue.free_at(10) == 10
    queue.own({partition: {"gateway": Limit(per_second=10)} for partition in range(PARTITIONS)}, 10)
    assert len(turns(queue, until=20.01, now=10)) == 101  # of what was saved up, one is left


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        (lambda: Limit(per_second=0), "more than 0"),
        (lambda: Limit(per_second=inf), "more than 0"),
        (lambda: Limit(burst=0), r"burst=0.*at least 1"),
        (lambda: Limit(concurrent=0), r"concurrent=0.*at least 1"),
        (lambda: Limit(each=Limit(priority=2)), "single key"),
        (lambda: Limit(key="customer_id", each=Limit(concurrent=1)), "cannot count together"),
    ],
)
def test_a_limit_that_means_nothing_is_refused(limit: type, words: str) -> None:
    with pytest.raises(WiringError, match=words):
        limit()


def test_a_share_is_kept_while_one_is_out_and_until_it_is_full_again() -> None:
    bound = Bound(Share(per_second=None, burst=1, concurrent=1), 0.0)
    assert bound.is_fresh(0.0)
    bound.begin()
    assert bound.free_at(1.0) == inf
    assert not bound.is_fresh(1.0), "a new one would let another out beside it"
    bound.end()
    assert bound.is_fresh(1.0)


def test_a_rate_starts_empty_and_an_attempt_that_did_not_go_out_is_given_back() -> None:
    bound = Bound(Share(per_second=2, burst=2, concurrent=inf), 10.0)
    assert (bound.free_at(10.0), bound.is_fresh(10.0)) == (10.5, False)
    assert bound.free_at(11.0) == 11.0
    assert bound.is_fresh(11.0)
    bound.begin()
    assert not bound.is_fresh(11.0)
    bound.end(unused=True)
    assert bound.is_fresh(11.0)


def test_more_that_come_back_than_went_out_leave_room_for_no_more() -> None:
    bound = Bound(Share(per_second=None, burst=1, concurrent=1), 0.0)
    bound.end()  # it went out before there was this bound
    bound.begin()
    assert bound.free_at(0.0) == inf
    bound.end()
    assert bound.out == 0
