"""The commands of `eventlib parked`: their names, their options and their help."""

from typing import Annotated

import typer

from eventlib.cli.options import AppOption, JsonOption, LogOption, Place
from eventlib.cli.typed import Command, Group

parked = typer.Typer(cls=Group, no_args_is_help=True, help="See what could not be handled, and have it tried again.")


@parked.command("list", cls=Command)
def list_(context: typer.Context, as_json: JsonOption = False, app: AppOption = None, log: LogOption = None) -> None:
    """List what is parked: since when, how much waits, and why.

    A parked key or effect waits for a person; other keys go on.

    [dim]Examples:[/dim]
      eventlib parked list
      eventlib parked list --json | jq -r .reason | sort | uniq -c
    """
    from eventlib.cli.parked import print_list

    print_list(Place.of(context, app, log), as_json=as_json)


@parked.command(cls=Command)
def show(
    context: typer.Context,
    key: Annotated[str, typer.Argument(metavar="KEY", help="A key from the list, or an effect's id.")],
    as_json: JsonOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Show what waits behind a parked key, in order.

    Each input with where it came from, and what is in it. What cannot be decoded is shown as its bytes, in hexadecimal.

    [dim]Examples:[/dim]
      eventlib parked show 536365
      eventlib parked show 536365 --json | jq .data
    """
    from eventlib.cli.parked import print_waiting

    print_waiting(Place.of(context, app, log), key, as_json=as_json)


@parked.command(cls=Command)
def retry(  # noqa: PLR0913, PLR0917  one argument for each option
    context: typer.Context,
    decider: Annotated[
        str | None, typer.Argument(metavar="DECIDER", help="The decider's name, from the list.", show_default=False)
    ] = None,
    key: Annotated[
        str | None, typer.Argument(metavar="KEY", help="The key, from the list.", show_default=False)
    ] = None,
    everything: Annotated[bool, typer.Option("--all", metavar="", help="Everything that is parked.")] = False,
    as_json: JsonOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Ask the running services to handle again what is parked, in order.

    What fails again is parked again: mend the cause first, and start the
    services with the mended code.

    [dim]Examples:[/dim]
      eventlib parked retry order 536365
      eventlib parked retry --all
    """
    from eventlib.cli.parked import request_retries

    if everything:
        if decider is not None:
            raise typer.BadParameter("it stands alone, without a DECIDER and a KEY", param_hint="--all")
        request_retries(Place.of(context, app, log), None, as_json=as_json)
    elif decider is None or key is None:
        raise typer.BadParameter("name both, or give --all", param_hint="DECIDER KEY")
    else:
        request_retries(Place.of(context, app, log), (decider, key), as_json=as_json)
