"""An event to publish, and what goes with it onto the log."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from eventlib.errors import ContractError
from eventlib.model.event import Event
from eventlib.model.record import Record


@dataclass(frozen=True, slots=True)
class Signature:
    """The sender of an event by hand, and the reason: in headers of its record, which nothing else can set."""

    by: str
    reason: str

    @property
    def headers(self) -> tuple[tuple[str, bytes], ...]:
        """The signature as headers."""
        return (_SENT_BY, self.by.encode()), (_SENT_REASON, self.reason.encode())

    @classmethod
    def of(cls, record: Record) -> "Signature | None":
        """Return a record's signature; None when it has none."""
        found = dict(record.headers)
        if _SENT_BY not in found:
            return None
        return cls(found[_SENT_BY].decode("utf-8", "replace"), found.get(_SENT_REASON, b"").decode("utf-8", "replace"))


@dataclass(frozen=True, slots=True)
class Publication:
    """An event to publish, and what goes with it.

    The same `idempotency_key` gives the same event id; a request is handled once for each id, however often it is
    published. `partition` overrides where the key belongs; `headers` go on the log beside the event's own, and so does
    the `signature` of who sends it by hand.
    Raises: ContractError for anything that is of another type.
    """

    event: Event
    idempotency_key: str | None = None
    partition: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    signature: Signature | None = None

    def __post_init__(self) -> None:
        """Refuse what is no publication, before anything is written."""
        if not isinstance(self.event, Event):
            raise ContractError(_no_event(self.event))
        if self.idempotency_key is not None and not isinstance(self.idempotency_key, str):
            raise ContractError(f"idempotency_key={self.idempotency_key!r}: a key is text; give str(...) of it")
        if self.partition is not None and type(self.partition) is not int:
            raise ContractError(f"partition={self.partition!r}: a partition is a whole number from 0")
        if self.headers and not (isinstance(self.headers, Mapping) and all(map(_is_header, self.headers.items()))):
            raise ContractError(f"headers={self.headers!r}: give a dict of names and values, both of them text")


def _no_event(given: object) -> str:
    """Return the error for something that is no event, where one was expected."""
    if isinstance(given, type):
        return f"{given.__name__} is a class: publish one of its events, {given.__name__}(...)"
    if isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping):
        return "publish takes one event: give several to publish_many"
    return f"only events are published, and {type(given).__name__} is none: derive it from Event"


def _is_header(item: tuple[object, object]) -> bool:
    return all(isinstance(each, str) for each in item)


def headers_of(publication: Publication) -> tuple[tuple[str, bytes], ...]:
    """Return the headers that a publication gives its record. Raises: ContractError for one of the library's own."""
    given, signature = publication.headers, publication.signature
    taken = [name for name in given if name.startswith(_TAKEN)]
    if taken:
        raise ContractError(
            f"the header {taken[0]!r} is the library's own, as are all that begin with {', '.join(_TAKEN)}"
        )
    own = tuple((name, value.encode()) for name, value in given.items())
    return own if signature is None else own + signature.headers


_SENT_BY, _SENT_REASON = "sent_by", "sent_reason"
_TAKEN = ("ce_", "traceparent", "parked_", "past_of", _SENT_BY, _SENT_REASON)
