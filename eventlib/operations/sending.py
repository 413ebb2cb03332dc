"""Sends an external event by hand: checked against its contract, and on the log with who sent it and why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.ground.pydantic_errors import sentence_of
from eventlib.json_form import json_text, read_json
from eventlib.model.choreography import Choreography
from eventlib.model.event import Event, Position, contract_of, key_of
from eventlib.model.personal import MASKED, personal_fields
from eventlib.operations.act import Act, Desk, Outcome
from eventlib.operations.dry_run import token_of
from eventlib.publication import Publication, Signature


@dataclass(frozen=True)
class SendOutcome(Outcome):
    """Where an event is on the log, or would be: then it has no place yet, and without a key no partition."""

    event: Event
    place: Position | None = None
    token: str = ""

    @property
    def partition(self) -> int | None:
        """The partition that it is in, or would be; None where the log chooses."""
        key = key_of(self.event)
        if self.place is not None:
            return self.place.partition
        return None if key is None else contract_of(type(self.event)).topic.partition_of(key.encode())

    def json(self, *, personal: bool = False) -> dict[str, object]:
        """See `Outcome`."""
        del personal
        contract, place = contract_of(type(self.event)), self.place
        found = {"type": contract.type, "key": key_of(self.event), "topic": contract.topic.name}
        if place is not None:
            return found | {"partition": place.partition, "offset": place.offset}
        return found | {"partition": self.partition, "done": False, "as_previewed": self.token}


class Send(Act[SendOutcome, SendOutcome]):
    """Send an event from outside, signed with who sends it and why; the same idempotency key gives the same event id."""

    path: ClassVar[str] = "/events/{event_type}"
    status: ClassVar[int] = 201
    event_type: str
    data: Annotated[dict[str, object], Field(description="The event's fields.")]
    idempotency_key: Annotated[
        str | None, Field(min_length=1, max_length=1_000, description="The same key gives the same event id.")
    ] = None

    async def select(self, desk: Desk) -> SendOutcome:
        """Return the event, and where it would be.

        Raises: WiringError for an unknown type; ContractError, naming the field, for what does not fit, for an event that
        deciders emit, and for the mask of a personal field.
        """
        event = event_of(desk.log.choreography.event(self.event_type), self.data)
        refuse_facts(desk.log.choreography, type(event))
        refuse_masked(event)
        return SendOutcome(event, token=token_of("send", self.event_type, json_text(event)))

    async def apply(self, desk: Desk, about: SendOutcome) -> SendOutcome:
        """Append it. Guarantee: durable when it returns; the signature is in the record itself.

        Raises: NoRight where a field is personal, and this process may not write it; as `EventLog.publish`.
        """
        await prepare_sending(desk.log, type(about.event))
        publication = Publication(about.event, self.idempotency_key, signature=Signature(desk.by, self.reason))
        return SendOutcome(about.event, (await desk.log.publish_many([publication]))[0])


async def prepare_sending(log: EventLog, event_type: type[Event]) -> None:
    """Make an event's topic, and register its schema, where its services have not done so yet."""
    topic = contract_of(event_type).topic
    await log.codec.prepare([(topic.name, event_type)])
    held = [topic, topic.latest_topic] if topic.latest else [topic]
    there = await log.port.topics()
    if missing := [each for each in held if each.name not in there]:  # its services have not run on this log yet
        await log.port.create_topics(missing)


def event_of(event_type: type[Event], fields: object) -> Event:
    """Return the event that JSON fields make. Raises: ContractError, naming the field, for what does not fit."""
    if not isinstance(fields, Mapping):
        raise ContractError(f"the data is a JSON {type(fields).__name__}, and an event is an object of fields")
    try:
        return read_json(event_type, to_json(fields))
    except ValidationError as error:
        raise ContractError(f"{contract_of(event_type).type} does not fit: {sentence_of(error)}") from error
    except PydanticSerializationError as error:  # the fields came as JSON, which can escape what is no text
        name = next(name for name, value in fields.items() if not _is_text({name: value}))
        raise ContractError(
            f"{contract_of(event_type).type} does not fit: field {name.encode('utf-8', 'backslashreplace').decode()}: "
            "it has half a character (a lone surrogate), which no UTF-8 text can hold"
        ) from error


def _is_text(fields: Mapping[str, object]) -> bool:
    try:
        to_json(fields)
    except PydanticSerializationError:
        return False
    return True


def refuse_masked(event: Event) -> None:
    """Refuse the mask in a personal field: what an auditor sees of it is not its text."""
    if hidden := [name for name in personal_fields(type(event)) if getattr(event, name) == MASKED]:
        raise ContractError(f"{', '.join(hidden)}: {MASKED} is shown in place of a text; give the text")


def emitters_of(choreography: Choreography, event_type: type[Event]) -> Sequence[str]:
    """Return the names of the deciders that emit an event."""
    return [decider.name for decider in choreography.deciders if event_type in decider.emits]


def is_sendable(choreography: Choreography, event_type: type[Event]) -> bool:
    """Return whether an event comes from outside: neither do deciders emit it, nor do others write its topic."""
    return contract_of(event_type).external is None and not emitters_of(choreography, event_type)


def refuse_facts(choreography: Choreography, event_type: type[Event], unless: str = "") -> None:
    """Refuse an event that deciders emit: as an external event it has no cause and no sequence.

    `unless` ends the sentence with how to send it all the same.
    """
    if emitters := emitters_of(choreography, event_type):
        raise ContractError(
            f"{event_type.__name__} is a fact that decider {', '.join(emitters)} emits: published from outside, it has no "
            f"cause, and its decider does not know of it. Publish a request that leads to it{unless}"
        )


def refuse_misplaced(event: Event, partition: int | None, unless: str = "") -> None:
    """Refuse a partition that is not the one of the event's key."""
    key, contract = key_of(event), contract_of(type(event))
    if key is None or partition is None:
        return
    home = contract.topic.partition_of(key.encode())
    if partition != home:
        raise ContractError(
            f"{contract.key} {key!r} belongs in partition {home} of {contract.topic.name}: in {partition} its services "
            f"would park it. Leave --partition out{unless}"
        )
