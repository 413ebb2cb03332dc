"""The commands for somebody who builds a service: their names, their options and their help."""

from pathlib import Path
from typing import Annotated

import typer

from eventlib.cli.options import AppOption, JsonOption, LogOption, LogOptions


def publish(  # noqa: PLR0913, PLR0917  one argument for each option
    context: typer.Context,
    event_type: Annotated[str, typer.Argument(metavar="TYPE", help="The event's type: its class's name.")],
    data: Annotated[str, typer.Option(metavar="JSON", help="The event's fields as a JSON object; - reads stdin.")],
    key: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The key field's value, where --data has none.")
    ] = None,
    idempotency_key: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="The same one gives the same id: a request is handled once for each."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Goes on the log beside the event; may be repeated."),
    ] = None,
    partition: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Where a keyless event goes; others go by their key.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", metavar="", help="Also what could break what the services promise.")
    ] = False,
    as_json: JsonOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Put one event on the log, from outside, and print its position.

    Requests and facts of your own go through. What a decider says does not,
    unless it is forced: nothing on the log would have caused it.

    [dim]Examples:[/dim]
      eventlib publish CancelSubmitted --data '{"order_id": "536365"}'
      eventlib publish CancelSubmitted --key 536365 --data '{"reason": "late"}'
      eventlib publish OrderSubmitted --idempotency-key c1 --data - < order.json
    """
    from eventlib.cli.publish import PublishOptions, publish_one

    wish = PublishOptions(event_type, data, key, idempotency_key, tuple(header or ()), partition, force)
    publish_one(LogOptions.of(context, app, log), wish, as_json=as_json)


def new(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The service's name: small letters, digits and '-'.")],
    directory: Annotated[
        Path, typer.Option(metavar="DIR", file_okay=False, help="The project: one that is there, or a new one.")
    ] = Path(),
    app: AppOption = None,
) -> None:
    """Write a new service that runs, and its test.

    Events, state, decider, and a test of them. In a project with an application
    the service joins that one, in an application of its own beside it: nothing
    that is there is changed. Elsewhere it is the first of a new project.

    [dim]Examples:[/dim]
      eventlib new loyalty
      eventlib new gift-cards --directory ../cards
    """
    from eventlib.cli.scaffold import create_service

    create_service(name, directory, LogOptions.of(context, app, None).app)
