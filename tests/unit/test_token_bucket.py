"""What a process's share of a limit lets out, and when it may be forgotten."""

from math import inf

from eventlib.runtime.token_bucket import Bound, Share


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
