"""The brokers' error codes, and the errors they become."""

from enum import IntEnum

from eventlib.errors import ContractError, EventlibError, LogDenied, LogUnavailable
from eventlib.log.rules import TooLargeForLog


class Code(IntEnum):
    """The error codes of Kafka's protocol that are handled here (kafka.apache.org/protocol#protocol_error_codes)."""

    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    ILLEGAL_GENERATION = 22
    UNKNOWN_MEMBER_ID = 25
    REBALANCE_IN_PROGRESS = 27
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    TOPIC_ALREADY_EXISTS = 36
    INVALID_REPLICATION_FACTOR = 38
    NOT_CONTROLLER = 41
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    KAFKA_STORAGE_ERROR = 56
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    INVALID_RECORD = 87
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90


STALE_LEADER = frozenset(
    {
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.LEADER_NOT_AVAILABLE,
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.REPLICA_NOT_AVAILABLE,
        Code.KAFKA_STORAGE_ERROR,
        Code.FENCED_LEADER_EPOCH,
        Code.UNKNOWN_LEADER_EPOCH,
    }
)
"""Another broker leads the partition: refresh the metadata."""

STALE_COORDINATOR = frozenset({Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR})
"""Another broker is the coordinator: look it up again."""

FENCED = frozenset(
    {
        Code.INVALID_PRODUCER_EPOCH,
        Code.INVALID_PRODUCER_ID_MAPPING,
        Code.TRANSACTION_COORDINATOR_FENCED,
        Code.PRODUCER_FENCED,
        Code.INVALID_TXN_STATE,
    }
)
"""The producer's transactional id has a newer owner, or its transaction was aborted because it took too long."""

_PASSES = (
    STALE_LEADER
    | STALE_COORDINATOR
    | {
        Code.REQUEST_TIMED_OUT,
        Code.NETWORK_EXCEPTION,
        Code.COORDINATOR_LOAD_IN_PROGRESS,
        Code.NOT_ENOUGH_REPLICAS,
        Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Code.NOT_CONTROLLER,
        Code.CONCURRENT_TRANSACTIONS,
        Code.OFFSET_NOT_AVAILABLE,
        Code.THROTTLING_QUOTA_EXCEEDED,
    }
)
_DENIED = frozenset(
    {
        Code.TOPIC_AUTHORIZATION_FAILED,
        Code.GROUP_AUTHORIZATION_FAILED,
        Code.CLUSTER_AUTHORIZATION_FAILED,
        Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)


class Transient(Exception):
    """A transient failure; the request may have been executed.

    `stale` means that outdated metadata may be the cause.
    """

    def __init__(self, sentence: str, *, stale: bool = True) -> None:
        super().__init__(sentence)
        self.stale = stale


class Fenced(Exception):
    """The producer is unusable: another one fenced it, or its transaction was aborted."""


class Undecided(Fenced):
    """The producer is unusable: its transaction's outcome is unknown until a newer producer resolves it."""


def name_of(code: int) -> str:
    """Return an error code's name."""
    return Code(code).name if code in Code.__members__.values() else f"error {code}"


def failure(code: int, what: str) -> Transient | Fenced | EventlibError:
    """Return the error for an error code in the response to `what`."""
    sentence = f"{what}: {name_of(code)}"
    if code in _PASSES:
        return Transient(sentence, stale=code in STALE_LEADER)
    if code in FENCED:
        return Fenced(sentence)
    if code in _DENIED:
        return LogDenied(f"{sentence}; give this user the right to, or use another (EVENTLIB_KAFKA_USER)")
    if code in {Code.MESSAGE_TOO_LARGE, Code.RECORD_LIST_TOO_LARGE}:
        return TooLargeForLog(f"{sentence}; nothing of this append was written")
    if code in {Code.INVALID_RECORD, Code.INVALID_TIMESTAMP}:
        return ContractError(f"{sentence}; nothing of this append was written")
    return LogUnavailable(sentence)
