"""A broker's error codes: their numbers, and what a caller can do about each."""

import pytest
from aiokafka.errors import kafka_errors

from eventlib.errors import LogDenied, LogUnavailable
from eventlib.log.kafka.failures import Code, Fenced, Transient, failure
from eventlib.log.rules import TooLargeForLog


def test_codes_have_the_numbers_of_the_protocol() -> None:
    theirs = {error.__name__.removesuffix("Error").lower(): number for number, error in kafka_errors.items()}
    both = {code: theirs[name] for code in Code if (name := code.name.replace("_", "").lower()) in theirs}
    assert len(both) > 25
    assert {code: number for code, number in both.items() if code != number} == {}
    # Those that aiokafka does not know, or by another name: https://kafka.apache.org/protocol#protocol_error_codes
    assert {code.name: int(code) for code in Code if code not in both} == {
        "NONE": 0,
        "NOT_LEADER_OR_FOLLOWER": 6,
        "MESSAGE_TOO_LARGE": 10,
        "NETWORK_EXCEPTION": 13,
        "COORDINATOR_LOAD_IN_PROGRESS": 14,
        "COORDINATOR_NOT_AVAILABLE": 15,
        "NOT_COORDINATOR": 16,
        "KAFKA_STORAGE_ERROR": 56,
        "FENCED_LEADER_EPOCH": 74,
        "UNKNOWN_LEADER_EPOCH": 75,
        "OFFSET_NOT_AVAILABLE": 78,
        "INVALID_RECORD": 87,
        "THROTTLING_QUOTA_EXCEEDED": 89,
        "PRODUCER_FENCED": 90,
    }


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (Code.NOT_LEADER_OR_FOLLOWER, Transient),
        (Code.CONCURRENT_TRANSACTIONS, Transient),
        (Code.PRODUCER_FENCED, Fenced),
        (Code.INVALID_TXN_STATE, Fenced),
        (Code.TOPIC_AUTHORIZATION_FAILED, LogDenied),
        (Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, LogDenied),
        (Code.MESSAGE_TOO_LARGE, TooLargeForLog),
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
