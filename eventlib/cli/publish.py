"""`eventlib publish`: validates one external event, and appends it to the log."""

import asyncio
import sys
from dataclasses import dataclass
from typing import Annotated

import typer
from pydantic import ValidationError
from pydantic_core import to_json

from eventlib.cli._common import output
from eventlib.cli._common.options import AppOption, JsonOption, LogOption, LogOptions
from eventlib.errors import ContractError, WiringError
from eventlib.eventlog import Publication
from eventlib.model.choreography import Choreography
from eventlib.model.event import Contract, Event, Position, contract_of, key_of
from eventlib.opening import open_log
from eventlib.project import load_choreography
from eventlib.pydantic_errors import sentence_of
from eventlib.strict_json import JsonRefused, decode_json


def publish(  # noqa: PLR0913, PLR0917  one argument for each option
    context: typer.Context,
    event_type: Annotated[str, typer.Argument(metavar="TYPE", help="The event's type: its class name.")],
    data: Annotated[str, typer.Option(metavar="JSON", help="The event's fields as a JSON object; - reads stdin.")],
    key: Annotated[str | None, typer.Option(metavar="TEXT", help="The key field's value, if --data has none.")] = None,
    idempotency_key: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="The same key gives the same event id: the request is handled once."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A header of the record; may be repeated."),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="The partition of a keyless event; others are partitioned by key."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", metavar="", help="Also publish what may break the services' guarantees.")
    ] = False,
    as_json: JsonOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Append one external event to the log, and print its offset.

    Requests and external facts are accepted. An event that a decider emits is
    refused without --force: nothing on the log would be its cause.

    [dim]Examples:[/dim]
      eventlib publish CancelSubmitted --data '{"order_id": "536365"}'
      eventlib publish CancelSubmitted --key 536365 --data '{"reason": "late"}'
      eventlib publish OrderSubmitted --idempotency-key c1 --data - < order.json
    """
    options = PublishOptions(event_type, data, key, idempotency_key, tuple(header or ()), partition, force)
    publish_one(LogOptions.of(context, app, log), options, as_json=as_json)


_FORCE = "; --force publishes it all the same"


@dataclass(frozen=True, slots=True)
class PublishOptions:
    """An event to publish, as it was typed."""

    event_type: str
    data: str
    key: str | None
    idempotency_key: str | None
    headers: tuple[str, ...]
    partition: int | None
    force: bool


def publish_one(log_options: LogOptions, options: PublishOptions, *, as_json: bool) -> None:
    """Publish an event, and print its topic, partition and offset.

    Raises: WiringError for an unknown type or a log that ends with this process; ContractError, naming the field, for
    data that does not fit, and for what may break the services' guarantees unless it is forced.
    """
    choreography = load_choreography(log_options.app)
    if log_options.url.startswith("memory:"):
        raise WiringError(f"{log_options.url} lives and ends with one process: name a log file")
    event_type = choreography.event(options.event_type)
    headers = dict(map(_header, options.headers))
    event = _event(event_type, options)
    if not options.force:
        _refuse_facts(choreography, event_type)
        _refuse_misplaced(event, options.partition)
    publication = Publication(event, options.idempotency_key, options.partition, headers)
    _print(asyncio.run(_published(log_options.url, choreography, publication)), event, as_json=as_json)


async def _published(url: str, choreography: Choreography, publication: Publication) -> Position:
    async with open_log(url, choreography) as log:
        return (await log.publish_many([publication]))[0]


def _event(event_type: type[Event], options: PublishOptions) -> Event:
    contract = contract_of(event_type)
    text = sys.stdin.read() if options.data == "-" else options.data
    try:
        fields = decode_json(text)
    except (ValueError, JsonRefused) as error:
        raise ContractError(f"--data is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise ContractError(f"--data is a JSON {type(fields).__name__}, and an event is an object of fields")
    if options.key is not None:
        _take_key(fields, options.key, contract)
    try:
        return event_type.model_validate_json(to_json(fields))
    except ValidationError as error:
        raise ContractError(f"{contract.type} does not fit: {sentence_of(error)}") from error


def _take_key(fields: dict[str, object], key: str, contract: Contract) -> None:
    if contract.key is None:
        raise ContractError(f"{contract.type} is keyless: leave --key out")
    if str(fields.setdefault(contract.key, key)) != key:
        raise ContractError(f"--key is {key!r}, but {contract.key} in --data is {fields[contract.key]!r}")


def _header(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not (name and found):
        raise typer.BadParameter(f"{text!r} is no header: write NAME=VALUE", param_hint="--header")
    return name, value


def _refuse_facts(choreography: Choreography, event_type: type[Event]) -> None:
    """Refuse an event that deciders emit: as an external event it has no cause and no sequence."""
    emitters = [decider.name for decider in choreography.deciders if event_type in decider.emits]
    if emitters:
        raise ContractError(
            f"{event_type.__name__} is a fact that decider {', '.join(emitters)} emits: published from outside, it has no "
            f"cause, and its decider does not know of it. Publish a request that leads to it{_FORCE}"
        )


def _refuse_misplaced(event: Event, partition: int | None) -> None:
    key, contract = key_of(event), contract_of(type(event))
    if key is None or partition is None:
        return
    home = contract.topic.partition_of(key.encode())
    if partition != home:
        raise ContractError(
            f"{contract.key} {key!r} belongs in partition {home} of {contract.topic.name}: in {partition} its services "
            f"would park it. Leave --partition out{_FORCE}"
        )


def _print(position: Position, event: Event, *, as_json: bool) -> None:
    line = {
        "topic": position.topic,
        "partition": position.partition,
        "offset": position.offset,
        "recorded_at": output.iso(position.recorded_at),
        "key": key_of(event),
        "type": type(event).__name__,
    }
    if as_json:
        output.print_json([line])
    else:
        location = f"{position.topic}/{position.partition}@{position.offset}"
        print(f"{line['type']} is on the log: {location}, recorded at {line['recorded_at']}.")
