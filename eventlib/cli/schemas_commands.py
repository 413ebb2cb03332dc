"""The commands of `eventlib schemas`: their names, their options and their help."""

from typing import Annotated

import typer

from eventlib.cli.options import AppOption, JsonOption, LogOption, LogOptions
from eventlib.cli.registry_commands import serve
from eventlib.cli.typed import Command, Group

schemas = typer.Typer(
    cls=Group, no_args_is_help=True, help="Check the contracts of events and states, register them, and serve them."
)

_Name = Annotated[str, typer.Argument(metavar="NAME", help="An event's or a state's name, or its subject.")]


@schemas.command(cls=Command)
def check(
    context: typer.Context,
    sample: Annotated[
        int, typer.Option("--sample", metavar="N", min=0, help="How many records of each partition are decoded.")
    ] = 1_000,
    also: Annotated[
        list[str] | None,
        typer.Option("--also", metavar="URL", help="Decode here, too: archive:DIR, for instance.", show_default=False),
    ] = None,
    as_json: JsonOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Look for what today's code would break: exit code 1 if anything.

    Every event and every state is compared with all versions that were ever
    registered, and a sample of what really stands on the log is decoded.
    Events are read both ways, with each version (FULL_TRANSITIVE); states by
    the code that comes after (BACKWARD_TRANSITIVE).

    [dim]Examples:[/dim]
      eventlib schemas check
      eventlib schemas check --also archive:/var/archive --sample 100000
      eventlib schemas check --json | jq -r '[.name, .field, .rule] | @tsv'
    """
    from eventlib.cli.schemas import print_check

    raise typer.Exit(print_check(LogOptions.of(context, app, log), also or [], sample=sample, as_json=as_json))


@schemas.command(cls=Command)
def register(context: typer.Context, as_json: JsonOption = False, app: AppOption = None, log: LogOption = None) -> None:
    """Register the schemas of today's code; none of them, if one is not compatible.

    [dim]Examples:[/dim]
      eventlib schemas register
      EVENTLIB_REGISTRY=https://registry:8081 eventlib schemas register
    """
    from eventlib.cli.schemas import print_register

    raise typer.Exit(print_register(LogOptions.of(context, app, log), as_json=as_json))


@schemas.command("list", cls=Command)
def list_(context: typer.Context, as_json: JsonOption = False, app: AppOption = None, log: LogOption = None) -> None:
    """List the contracts: how many versions each has, and whether today's is one.

    [dim]Examples:[/dim]
      eventlib schemas list
      eventlib schemas list --json | jq -r 'select(.today == "new") | .name'
    """
    from eventlib.cli.schemas import print_list

    print_list(LogOptions.of(context, app, log), as_json=as_json)


@schemas.command(cls=Command)
def show(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME[@VERSION]", help="Today's, or a registered version.")],
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Show a schema.

    [dim]Examples:[/dim]
      eventlib schemas show OrderPlaced
      eventlib schemas show OrderPlaced@1
    """
    from eventlib.cli.schemas import print_schema

    print_schema(LogOptions.of(context, app, log), name)


@schemas.command(cls=Command)
def diff(
    context: typer.Context,
    before: Annotated[str, typer.Argument(metavar="NAME[@VERSION]", help="A schema; today's without a version.")],
    after: Annotated[str, typer.Argument(metavar="NAME[@VERSION]", help="The other one.")],
    as_json: JsonOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Show what two schemas differ in, and whether each reads the other's data.

    [dim]Examples:[/dim]
      eventlib schemas diff OrderPlaced@1 OrderPlaced
      eventlib schemas diff OrderPlaced@1 OrderPlaced@2 --json | jq .changes
    """
    from eventlib.cli.schemas import print_diff

    print_diff(LogOptions.of(context, app, log), before, after, as_json=as_json)


@schemas.command(cls=Command)
def epoch(context: typer.Context, name: _Name, app: AppOption = None, log: LogOption = None) -> None:
    """Begin a new version of a contract, which older code cannot read.

    Today's class has to have an upcaster for what was written so far,
    @upcasts(NAME, version=N), so that it reads all of it. Deploy what reads
    these events first: older code parks what the new version writes.

    [dim]Example:[/dim]
      eventlib schemas epoch OrderPlaced
    """
    from eventlib.cli.schemas import print_epoch

    print_epoch(LogOptions.of(context, app, log), name)


@schemas.command(cls=Command)
def level(
    context: typer.Context,
    name: _Name,
    level: Annotated[
        str, typer.Argument(metavar="LEVEL", help="NONE, or BACKWARD, FORWARD or FULL, each also _TRANSITIVE.")
    ],
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Set what is asked of a contract's new schemas.

    [dim]Example:[/dim]
      eventlib schemas level ParcelWeighed BACKWARD_TRANSITIVE
    """
    from eventlib.cli.schemas import print_level

    print_level(LogOptions.of(context, app, log), name, level)


schemas.command(cls=Command)(serve)
