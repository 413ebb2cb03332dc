"""`eventlib publish`: validates one external event, and appends it to the log."""

import asyncio
import sys
from typing import Annotated

import typer

from eventlib.cli._common import output
from eventlib.cli._common.options import JsonOption, LogOptions, argument, flag, option
from eventlib.cli._common.prompts import actor
from eventlib.errors import ContractError, WiringError
from eventlib.ground.strict_json import JsonRefused, decode_json
from eventlib.model.choreography import Choreography
from eventlib.model.event import Contract, Event, Position, contract_of, key_of
from eventlib.model.project import load_choreography
from eventlib.opening import open_log
from eventlib.operations.sending import event_of, refuse_facts, refuse_misplaced
from eventlib.publication import Publication, Signature
from eventlib.values import iso


def publish(  # noqa: PLR0913, PLR0917  one argument for each option
    log_options: LogOptions,
    event_type: Annotated[str, argument("TYPE", "The event's type: its class name.")],
    data: Annotated[str, option("--data", "JSON", "The event's fields as a JSON object; - reads stdin.")],
    key: Annotated[str | None, option("--key", "TEXT", "The key field's value, if --data has none.")] = None,
    idempotency_key: Annotated[
        str | None,
        option("--idempotency-key", "TEXT", "The same key gives the same event id: the request is handled once."),
    ] = None,
    header: Annotated[
        list[str] | None, option("--header", "NAME=VALUE", "A header of the record; may be repeated.")
    ] = None,
    partition: Annotated[
        int | None,
        option("--partition", "N", "The partition of a keyless event; others are partitioned by key.", min=0),
    ] = None,
    reason: Annotated[str, option("--reason", "TEXT", "Why; stored with the event and your name.")] = "",
    force: Annotated[bool, flag("--force", "Also publish what may break the services' guarantees.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Append one external event to the log, and print its offset.

    Requests and external facts are accepted. An event that a decider emits is
    refused without --force: nothing on the log would be its cause.
    With --reason it is an act: who sent it and why stand in its record, and
    `eventlib acts` lists it.

    [dim]Examples:[/dim]
      eventlib publish CancelSubmitted --data '{"order_id": "536365"}'
      eventlib publish CancelSubmitted --key 536365 --data '{"reason": "late"}'
      eventlib publish CancelSubmitted --key 536365 --data '{}' --reason "by phone"
      eventlib publish OrderSubmitted --idempotency-key c1 --data - < order.json
    """
    choreography = load_choreography(log_options.app)
    if log_options.url.startswith("memory:"):
        raise WiringError(f"{log_options.url} lives and ends with one process: name a log file")
    chosen = choreography.event(event_type)
    headers = dict(map(_header, header or ()))
    event = _event(chosen, sys.stdin.read() if data == "-" else data, key)
    if not force:
        refuse_facts(choreography, chosen, _FORCE)
        refuse_misplaced(event, partition, _FORCE)
    signature = Signature(actor(), reason.strip()) if reason.strip() else None
    publication = Publication(event, idempotency_key, partition, headers, signature)
    _print(asyncio.run(_published(log_options.url, choreography, publication)), event, as_json=as_json)


_FORCE = "; --force publishes it all the same"


async def _published(url: str, choreography: Choreography, publication: Publication) -> Position:
    async with open_log(url, choreography) as log:
        return (await log.publish_many([publication]))[0]


def _event(event_type: type[Event], text: str, key: str | None) -> Event:
    try:
        fields = decode_json(text)
    except (ValueError, JsonRefused) as error:
        raise ContractError(f"--data is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise ContractError(f"--data is a JSON {type(fields).__name__}, and an event is an object of fields")
    if key is not None:
        _take_key(fields, key, contract_of(event_type))
    return event_of(event_type, fields)


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


def _print(position: Position, event: Event, *, as_json: bool) -> None:
    line = {
        "topic": position.topic,
        "partition": position.partition,
        "offset": position.offset,
        "recorded_at": iso(position.recorded_at),
        "key": key_of(event),
        "type": type(event).__name__,
    }
    if as_json:
        output.print_json([line])
    else:
        location = f"{position.topic}/{position.partition}@{position.offset}"
        print(f"{line['type']} is on the log: {location}, recorded at {line['recorded_at']}.")
