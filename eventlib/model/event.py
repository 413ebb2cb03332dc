"""Events: past facts, each with its topic and key declared once."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_after_validator_function

from eventlib.errors import ContractError, WiringError
from eventlib.ground.arguments import AN_EVENT, check_class
from eventlib.model.measures import check_measures
from eventlib.model.personal import check_event
from eventlib.model.schema.normal import normal, validating
from eventlib.model.searchable import check_searchable
from eventlib.model.topic import Topic

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NO_HEADERS: Mapping[str, bytes] = MappingProxyType({})

E = TypeVar("E", bound="Event")


class ExternalFormat(ABC):
    """Reads what others write to a topic of theirs; `eventlib.external` has JSON, plain text and Avro."""

    @abstractmethod
    def decode(self, event_type: type[E], value: bytes, key: str | None) -> E:
        """Return a record's value as an event; `key` is the record's key, for a key field that the value has not.

        Guarantee: raises nothing but ContractError, whatever the bytes are, and does no I/O.
        """

    def check(self, event_type: "type[Event]") -> None:  # noqa: B027  most have nothing to check
        """Refuse a class that could never be read, when it is declared. Raises: WiringError."""


@dataclass(frozen=True, slots=True)
class Contract:
    """The declarations of an event class beside its fields."""

    type: str
    topic: Topic
    key: str | None
    request: bool
    final: bool
    tombstone: bool
    external: ExternalFormat | None = None
    failure: bool | None = None
    reverses: "tuple[EventType, ...]" = ()
    once_for: timedelta | None = None
    null: "Mapping[str, Any] | Literal['skip'] | None" = None


class Event(BaseModel):
    """A fact of the past on a topic: immutable, strict about unknown fields.

    Guarantee: a field has the value that the event's bytes give back, from the event's construction on, so a handler is given
    the same for each producer: a time in UTC, a Decimal with its declared scale, a list that cannot be changed in place.

    Declare the topic and the key field once, on the class:
    `class StockReserved(Event, topic="stock", key="order_id")`. Further declarations:

    - `abstract=True`: a class to inherit from, never on a log; the only one that needs no topic.
    - `request=True`: published from outside the services, perhaps twice; each id is processed once while it is remembered: as one of
      the newest 8 of its key, or for seven days after them, as one of `Decider(requests_remembered=10_000)`.
    - `once_for=timedelta(days=3)`: how long the id of a request is remembered instead, also one of the newest: for what others
      report, and may report again, such as the callback of a payment. A key is not forgotten before that.
    - `final=True`: ends a saga, so it needs no handler.
    - `failure=True`: a step was refused, has failed or was called off, so earlier steps have to be compensated.
      The event of an effect's `otherwise` is a failure too, unless it declares `failure=False`.
    - `reverses=StockReserved`: compensates that event. `eventlib check` proves that every failure leads to it.
    - `tombstone=True`: removes its key from `<topic>.latest`, the compacted copy of a topic with `latest=True`.
    - `external=Json()`: an external system writes this topic in its own format; events of this class are the only ones
      on it, and services emit none to it. See `eventlib.external`.
    - `null={"deleted": True}`: what a record without a value means on an external topic: an event of its key and these
      fields. `null="skip"`: nothing. Without it such a record is passed over too, and `eventlib check` asks for it.

    Raises: WiringError at import, when the topic is missing or the key is not a field.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    __contract__: ClassVar[Contract | None] = None

    def __init_subclass__(  # noqa: PLR0913  what a class line declares
        cls,
        *,
        topic: str | Topic | None = None,
        key: str | None = "",
        abstract: bool = False,
        request: bool = False,
        final: bool = False,
        tombstone: bool = False,
        external: ExternalFormat | None = None,
        failure: bool | None = None,
        reverses: "EventType | tuple[EventType, ...]" = (),
        once_for: timedelta | None = None,
        null: "Mapping[str, Any] | Literal['skip'] | None" = None,
        **config: Any,
    ) -> None:
        """Take the declarations off the class line, before Pydantic reads the fields."""
        super().__init_subclass__(**config)
        if abstract:
            cls.__contract__ = None
            return
        if topic is None:
            raise WiringError(
                f"event {cls.__name__} has no topic: write `class {cls.__name__}(Event, topic=..., key=...)`, "
                "or abstract=True for a class that is only inherited from"
            )
        if key == "":
            raise WiringError(f"event {cls.__name__} has no key: name the field, or write key=None for a keyless event")
        declared = topic if isinstance(topic, Topic) else Topic(topic)
        if tombstone and not declared.latest:
            raise WiringError(f"event {cls.__name__} is a tombstone, but topic {declared.name!r} has no latest=True")
        if external is not None and declared.latest:
            raise WiringError(
                f"event {cls.__name__} is external, but topic {declared.name!r} has latest=True: that copy is written "
                "with each event, and others write these; declare compacted=True if they keep the newest of each key"
            )
        if once_for is not None and (not request or once_for <= timedelta(0)):
            raise WiringError(
                f"event {cls.__name__}: once_for={once_for} says for how long the id of a request is remembered: give a time "
                "above zero, and declare request=True"
            )
        undone = reverses if isinstance(reverses, tuple) else (reverses,)
        cls.__contract__ = Contract(
            cls.__name__, declared, key, request, final, tombstone, external, failure, undone, once_for, null
        )

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Let validation end with the normal values, where it leaves anything open."""
        schema, contract = handler(source), cls.__contract__
        ends = validating(cls, sorts=contract is not None and contract.topic.format == "protobuf")
        return schema if ends is None else no_info_after_validator_function(ends, schema)

    @classmethod
    def model_construct(cls, _fields_set: set[str] | None = None, **values: Any) -> Self:
        """Return an event of values that nothing validates, but that are normal where all fields have one."""
        made = super().model_construct(_fields_set, **values)
        return normal(made) if made.__dict__.keys() >= cls.model_fields.keys() else made

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other values of some fields, which nothing validates, but which are normal."""
        copied = super().model_copy(update=update, deep=deep)
        return normal(copied) if update else copied

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Check the key once the fields are known."""
        contract = cls.__contract__
        if contract is not None and contract.key is not None and contract.key not in cls.model_fields:
            fields = ", ".join(cls.model_fields) or "none"
            raise WiringError(f"event {cls.__name__}: key {contract.key!r} is not one of its fields ({fields})")
        if contract is not None and contract.external is not None:
            contract.external.check(cls)
        if contract is not None and contract.null is not None:
            _check_null(cls, contract)
        if contract is not None:
            check_event(cls, contract.key, is_external=contract.external is not None)
            check_searchable(cls)
            check_measures(cls)


EventType: TypeAlias = type[Event]


def _check_null(cls: EventType, contract: Contract) -> None:
    """Refuse a meaning of a null value that could never be an event. Raises: WiringError."""
    null, fields = contract.null, cls.model_fields
    if contract.external is None:
        raise WiringError(f"event {cls.__name__}: null= says what others mean by a null value: declare external= too")
    if null == "skip":
        return
    if not isinstance(null, Mapping):
        raise WiringError(
            f'event {cls.__name__}: null={null!r}; write null="skip", or the fields of an event, as in a dict'
        )
    unknown = [name for name in null if name not in fields]
    missing = [name for name in fields if fields[name].is_required() and name not in null and name != contract.key]
    if unknown or missing:
        what = f"names {unknown[0]!r}, which is none of its fields" if unknown else f"gives no {missing[0]!r}"
        remedy = (
            "name fields of the event"
            if unknown
            else "give that, or a default on the class: a null value has only its key"
        )
        raise WiringError(f"event {cls.__name__}: null={dict(null)!r} {what}: {remedy}")


def contract_of(event_type: type[Event]) -> Contract:
    """Return what an event class declares, or an event's. Raises: WiringError for an abstract class, and for what is none."""
    try:
        contract = event_type.__contract__
    except AttributeError:
        check_class(event_type, Event, "event_type", AN_EVENT)
        raise
    if contract is None:
        raise WiringError(f"{event_type.__name__} is abstract: it has no topic; use one of its subclasses")
    return contract


def key_of(event: Event) -> str | None:
    """Return an event's key as text, or None for a keyless event.

    Raises: ContractError when the event has no such field, as one that `model_construct` made, or the key is empty.
    """
    name = contract_of(type(event)).key
    if name is None:
        return None
    try:
        key = str(getattr(event, name))
    except AttributeError as error:
        raise ContractError(
            f"{type(event).__name__}.{name} is the event's key, and this event has no {name}: construct it with all its "
            f"fields, as in {type(event).__name__}({name}=...)"
        ) from error
    if not key:
        raise ContractError(f"{type(event).__name__}.{name} is the event's key and must not be empty")
    return key


def unwritable_key(event: Event, key: str) -> ContractError:
    """Return the error for an event whose key UTF-8 has no bytes for."""
    name = f"{type(event).__name__}.{contract_of(type(event)).key}"
    return ContractError(
        f"{name} is the event's key and cannot be written: {key!r} has half of a surrogate pair; decode the text "
        "that it comes from as UTF-8, with errors='replace' where it may be broken"
    )


@dataclass(frozen=True, slots=True)
class Position:
    """The topic, partition and offset of a record, and its time (UTC)."""

    topic: str
    partition: int
    offset: int
    recorded_at: datetime


class Meta(NamedTuple):
    """The log's metadata of a recorded event; a handler that needs it takes it as its last argument.

    `recorded_at` (UTC) is set once, when the transaction is made. `correlation_id` is the same for all events of a saga,
    `causation_id` is the id of the input that led to this event. `source` is `service/decider`, `subject` the decider's
    key, `sequence` counts the events emitted under that key from 1.
    Source: CloudEvents 1.0 for the names; W3C Trace Context for `traceparent`.
    """

    id: str
    topic: str = ""
    partition: int = 0
    offset: int = -1
    recorded_at: datetime = EPOCH
    correlation_id: str = ""
    causation_id: str | None = None
    source: str = ""
    subject: str = ""
    sequence: int | None = None
    traceparent: str | None = None
    headers: Mapping[str, bytes] = NO_HEADERS


of_fields = tuple.__new__
"""Makes a named tuple, as in `of_fields(Meta, fields)`: what its class calls itself, and so one call less for each."""
