"""Sends an external event by hand: checked against its contract, and on the log with who sent it and why."""

from collections.abc import Mapping, Sequence

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_json

from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.ground.pydantic_errors import sentence_of
from eventlib.json_form import read_json
from eventlib.model.choreography import Choreography
from eventlib.model.event import Event, Position, contract_of, key_of
from eventlib.model.personal import MASKED, personal_fields
from eventlib.publication import Publication, Signature


async def send_event(log: EventLog, event: Event, by: str, reason: str, idempotency_key: str | None = None) -> Position:
    """Append an event from outside to the log, signed with who sends it and why, and return its position.

    Guarantee: durable when it returns; the signature is in the record itself. The same `idempotency_key` gives the same
    event id, so that a request is handled once.
    Raises: ContractError without a reason, for an event that deciders emit, and for the mask of a personal field; NoRight
    where a field is personal, and this process may not write it; as `EventLog.publish`.
    """
    if not reason.strip():
        raise ContractError("give a reason: it is stored on the log")
    refuse_facts(log.choreography, type(event))
    refuse_masked(event)
    await prepare_sending(log, type(event))
    publication = Publication(event, idempotency_key, signature=Signature(by, reason.strip()))
    return (await log.publish_many([publication]))[0]


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
