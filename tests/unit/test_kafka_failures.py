"""A broker's error codes: their numbers, and what a caller can do about each."""

import pytest
from aiokafka.errors import kafka_errors

from eventlib.errors import ContractError, LogDenied, LogUnavailable
from eventlib.log.kafka.failures import Code, Fenced, Transient, failure


def test_codes_have_the_numbers_of_the_protocol() -> None:
    theirs = {error.__name__.removesuffix("Error").lower(): number for number, error in kafka_errors.items()}
    both = {code: theirs[name] for code in Code if (name := code.name.replace("_", "").lower()) in theirs}
    assert len(both) > 25
    assert {code: number for code, number in both.items() if code != number} == {}


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (Code.NOT_LEADER_OR_FOLLOWER, Transient),
        (Code.CONCURRENT_TRANSACTIONS, Transient),
        (Code.PRODUCER_FENCED, Fenced),
        (Code.INVALID_TXN_STATE, Fenced),
        (Code.TOPIC_AUTHORIZATION_FAILED, LogDenied),
        (Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, LogDenied),
        (Code.MESSAGE_TOO_LARGE, ContractError),
        (Code.INVALID_TOPIC, LogUnavailable),
        (999, LogUnavailable),
    ],
)
def test_an_error_is_of_the_kind_that_says_what_to_do(code: int, kind: type[Exception]) -> None:
    error = failure(code, "writing to orders")
    assert type(error) is kind
    assert str(error).startswith("writing to orders: ")


def test_metadata_is_read_again_only_where_it_may_be_the_cause() -> None:
    stale, not_stale = failure(Code.NOT_LEADER_OR_FOLLOWER, "a"), failure(Code.REQUEST_TIMED_OUT, "a")
    assert isinstance(stale, Transient)
    assert isinstance(not_stale, Transient)
    assert (stale.stale, not_stale.stale) == (True, False)
