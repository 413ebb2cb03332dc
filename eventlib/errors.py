"""The errors of the library, and whether a retry can help.

EventlibError
├── RetryableError            the same attempt may succeed later
│   ├── LogUnavailable        the log is busy or out of reach
│   │   └── StoreLost         a task's local store is gone: it is restored from the changelog
│   ├── LogFull               no space left; nothing was half-written
│   ├── OwnershipLost         another owner has this task now: start over
│   ├── RegistryUnavailable   the schema registry is out of reach
│   ├── OutcomeUnknown        the outside world did not say whether it acted
│   └── UnforeseenEnd         a function of the application ended with something that is not an error
└── TerminalError             no retry helps: a person or a deployment has to act
    ├── WiringError           the choreography is wrong; found at import or at start
    ├── ContractError         an event or record does not fit its contract
    │   ├── UndecodableRecord bytes on a topic that cannot be read as an event
    │   └── UnknownKey        a decider knows nothing of a key, or had not by then
    ├── LogCorrupt            the log's file is damaged, or is not a log at all
    │   ├── DamagedRecord     one record is not what was written, or is gone; what stands around it can be read
    │   └── TailLost          records that were acknowledged are gone from the log's end
    ├── LogReplaced           the log's file was removed, moved or replaced while it was open
    ├── LogVersionMismatch    the log was written by a newer version of this library
    ├── LogReadOnly           the log cannot be written to
    ├── LogDenied             the log does not let this user in, or do that
    ├── RegistryRefused       the schema registry does not let this user in, or does not take a schema
    ├── TopicMismatch         a topic on the log differs from its declaration
    ├── SignatureRefused      a webhook's signature is wrong or missing, or too old
    └── BrokerFailed          the broker for development cannot be fetched, started or stopped
"""

from contextlib import suppress
from dataclasses import dataclass


class EventlibError(Exception):
    """The root of every error that this library raises on purpose."""


class RetryableError(EventlibError):
    """The same attempt may succeed later."""


class TerminalError(EventlibError):
    """No retry helps: a person or a deployment has to act."""


_CLIENT_ERRORS = range(300, 500)
_ASK_AGAIN = frozenset({408, 409, 425, 429})


def is_final(error: BaseException) -> bool:
    """Return whether no retry helps: for a TerminalError, and for the final HTTP status of an error's `response`.

    `raise_for_status` of httpx and of requests raises such errors. Statuses below 500 are final, since the same request
    gets the same answer, except those that ask for a retry: 408, 409 (the first call under an idempotency key is still
    being answered), 425 and 429.
    """
    status = None
    with suppress(Exception):  # an error of the application's own may have any `response`
        status = error.response.status_code  # type: ignore[attr-defined]  # it has none, or one of an HTTP client
    return isinstance(error, TerminalError) or (status in _CLIENT_ERRORS and status not in _ASK_AGAIN)


class LogUnavailable(RetryableError):
    """The log is busy or out of reach."""


class StoreLost(LogUnavailable):
    """A task's local store is gone, which was a cache: open it anew, and restore the changelog."""


class LogFull(RetryableError):
    """No space is left for the log; nothing of the failed append is on it."""


class OwnershipLost(RetryableError):
    """Another owner has taken this task over, or may have: start over from what is on the log."""


class RegistryUnavailable(RetryableError):
    """The schema registry is out of reach; schemas that this process already has still work."""


class OutcomeUnknown(RetryableError):
    """An external system may have acted or not: an effect raises it to be tried again under its idempotency key."""


class UnforeseenEnd(RetryableError):
    """A function of the application ended with something that is not an error: a cancellation, a panic, an exit."""


class WiringError(TerminalError):
    """The choreography is wrong; the sentence says what to change."""


class ContractError(TerminalError):
    """An event or a record does not fit its contract, or an argument does not fit the log."""


@dataclass
class UndecodableRecord(ContractError):
    """A record that cannot be read as an event of its topic."""

    reason: str
    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.reason} (at {self.topic}/{self.partition}/{self.offset})"


class UnknownKey(ContractError):
    """A decider has no state of a key, or had none at the time that was asked for."""


class LogCorrupt(TerminalError):
    """The log's file is damaged, or is not a log at all."""


@dataclass
class DamagedRecord(LogCorrupt):
    """A record of the log is not what was written there, or is gone.

    `resume_at` is the next offset at which the partition can be read. `record` is what stands there now, as far as it
    can be made out (an `eventlib.log.base.Record`, of which no field can be trusted); None when there is nothing.
    `checksum` is that of the record as it was written, where the log keeps one: what has it, is that record.
    """

    reason: str
    topic: str
    partition: int
    offset: int
    resume_at: int
    record: object = None
    checksum: int | None = None

    def __str__(self) -> str:
        return f"{self.what}; `eventlib doctor --deep` names all that is; restore it from a backup"

    @property
    def what(self) -> str:
        """Where it is, and why, without the remedy."""
        return f"{self.topic}/{self.partition}/{self.offset} is damaged: {self.reason}"


class TailLost(LogCorrupt):
    """Records that were acknowledged are gone from the log's end; nothing is written before a person has decided."""


class LogReplaced(TerminalError):
    """The log's file was removed, moved or replaced while this process had it open: its name has another one, or none."""


class LogVersionMismatch(TerminalError):
    """The log was written by a newer version of this library."""


class LogReadOnly(TerminalError):
    """The log cannot be written to."""


class LogDenied(TerminalError):
    """The log does not let this user in, or do what was asked."""


class RegistryRefused(TerminalError):
    """The schema registry does not let this user in, or does not take a schema."""


class TopicMismatch(TerminalError):
    """A topic on the log differs from its declaration."""


class SignatureRefused(TerminalError):
    """A webhook's signature is wrong or missing, or its time is too far from now: nothing of it counts."""


class BrokerFailed(TerminalError):
    """The broker for development cannot be fetched, started or stopped; the sentence says what to do."""
