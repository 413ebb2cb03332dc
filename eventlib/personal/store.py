"""The interface of key stores: one wrapped data key for each subject, which all processes of a log share."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from secrets import token_bytes
from typing import NamedTuple, Self

from eventlib.errors import WiringError

KEY_ID_BYTES = 9
KEY_BYTES = 64
"""32 bytes encrypt, 32 derive nonces."""
NONCE_BYTES = 12
WRAPPED_BYTES = NONCE_BYTES + KEY_BYTES + 16
_PAGE = 10_000


class NoKeys(WiringError):
    """A log has no key store yet."""


class KeyRow(NamedTuple):
    """A subject's key as it is stored; `erased_ms` is when it was destroyed, or None, and `had_key` whether there was one."""

    subject: str
    id: bytes
    wrapped: bytes
    erased_ms: int | None = None
    had_key: bool = True


class KeyStore(ABC):
    """The wrapped keys of a log's subjects, and the wrapped key of the store itself.

    Guarantee, of each adapter: a key is durable before `add_all` returns it, and one subject has one key, whatever processes
    add it at once. What `erase` destroyed is returned by no call that begins later, in any process; where the destroyed bytes
    may still be is in the adapter's docstring. One connection is used by one process: a fork opens its own.
    Raises, of each call: LogUnavailable while the store is out of reach, LogCorrupt, WiringError.
    """

    name: str
    """How messages name the store; without a password."""

    @abstractmethod
    def ring(self) -> bytes | None:
        """Return the wrapped key of the store; None for a new one."""

    @abstractmethod
    def set_ring(self, wrapped: bytes) -> None:
        """Store the wrapped key of a new store; one that is there already stays."""

    @abstractmethod
    def of_subject(self, subject: str) -> KeyRow | None:
        """Return a subject's key, if there is one."""

    @abstractmethod
    def of_id(self, key_id: bytes) -> KeyRow | None:
        """Return the key with an id, if there is one."""

    @abstractmethod
    def add_all(self, rows: Sequence[KeyRow]) -> list[KeyRow]:
        """Store keys of subjects, and return those that are stored: another process may have been first."""

    @abstractmethod
    def erase(self, row: KeyRow, at_ms: int) -> bool:
        """Destroy a subject's key; `row` is stored as erased for a subject without one. Return whether it was known.

        Guarantee: again after a crash it completes what was begun, and keeps the time of the first erasure.
        """

    @abstractmethod
    def erasures(self) -> int:
        """Return the number of the last erasure; cheap enough to be asked 20 times a second."""

    @abstractmethod
    def erased_after(self, erasure: int) -> list[tuple[str, bytes]]:
        """Return the subjects and key ids of the erasures after the one with this number, 0 for all, in their order."""

    @abstractmethod
    def page(self, after: bytes, size: int) -> list[KeyRow]:
        """Return up to `size` keys whose ids are greater than `after`, in their ids' order; also what was erased."""

    @abstractmethod
    def replace_all(self, ring: bytes | None, rows: Iterable[KeyRow]) -> None:
        """Put other keys in the place of all that are stored; after a crash all are replaced, or none."""

    @abstractmethod
    def close(self) -> None:
        """Close it; a later call opens it again."""

    def __enter__(self) -> Self:
        """Return it; it is closed at the end."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def rows(self) -> Iterator[KeyRow]:
        """Yield all keys, also what was erased."""
        after = b""
        while page := self.page(after, _PAGE):
            yield from page
            after = page[-1].id


def new_row(subject: str, wrapped: bytes = bytes(WRAPPED_BYTES), *, had_key: bool = True) -> KeyRow:
    """Return a row with an id of its own."""
    return KeyRow(subject, token_bytes(KEY_ID_BYTES), wrapped, had_key=had_key)


def destroyed(row: KeyRow, at_ms: int) -> KeyRow:
    """Return a row as it is after an erasure; an earlier one keeps its time."""
    return row._replace(wrapped=bytes(WRAPPED_BYTES), erased_ms=at_ms if row.erased_ms is None else row.erased_ms)
