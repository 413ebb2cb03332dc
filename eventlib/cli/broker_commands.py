"""The commands of `eventlib broker`: their names, their options and their help."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eventlib.cli.options import JsonOption
from eventlib.cli.typed import Command, Group

if TYPE_CHECKING:
    from eventlib.devtools.kafka.security import Sasl

broker = typer.Typer(cls=Group, no_args_is_help=True, help="Run Apache Kafka on this machine, for development.")

DirectoryOption = Annotated[
    Path,
    typer.Option("--dir", metavar="DIR", file_okay=False, help="Where it keeps its data, settings and log."),
]
_SECURITY = "To try a client's security"
DEFAULT_DIRECTORY = Path("var/broker")


def _sasl(text: str) -> "Sasl":
    from eventlib.devtools.kafka.security import Sasl

    if text not in {*Sasl}:
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(Sasl)}")
    return Sasl(text)


@broker.command(cls=Command)
def start(  # noqa: PLR0913, PLR0917  one argument for each option
    nodes: Annotated[
        int | None,
        typer.Option(metavar="N", help="1, or 3: each keeps all, and one may fail. [dim]Default: 1[/dim]"),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="The first node's; the others follow it. 0 takes any that are free. [dim]Default: 9092[/dim]",
        ),
    ] = None,
    sasl: Annotated[
        Any,
        typer.Option(
            metavar="plain|scram|oauthbearer",
            parser=_sasl,
            help="Clients say who they are, in this way.",
            rich_help_panel=_SECURITY,
        ),
    ] = None,
    tls: Annotated[
        bool, typer.Option("--tls", metavar="", help="Clients come over TLS.", rich_help_panel=_SECURITY)
    ] = False,
    user: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME:PASSWORD",
            help="Who may come; may be repeated, the first may do everything. [dim]Default: admin:admin-secret[/dim]",
            rich_help_panel=_SECURITY,
        ),
    ] = None,
    authorize: Annotated[
        bool,
        typer.Option(
            "--authorize", metavar="", help="The others may do what access rules say.", rich_help_panel=_SECURITY
        ),
    ] = False,
    directory: DirectoryOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Start a cluster, and print the URL of the log on it.

    It listens on this machine only. Its jars are fetched once, from Maven
    Central. A cluster that was stopped with --keep, or died, goes on from its
    data; of one that runs already, the URL is printed again.

    [dim]Examples:[/dim]
      eventlib broker start
      export EVENTLIB_LOG=$(eventlib broker start --nodes 3)
      eventlib broker start --sasl scram --tls --user ada:1815 --json
    """
    from eventlib.cli.broker import BrokerOptions, start_cluster

    wish = BrokerOptions(nodes, port, sasl, tuple(user or ()), tls=tls, authorize=authorize)
    start_cluster(directory, wish, as_json=as_json)


@broker.command(cls=Command)
def stop(
    keep: Annotated[bool, typer.Option("--keep", metavar="", help="Keep the data for the next start.")] = False,
    directory: DirectoryOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Stop the cluster and delete all that it has written.

    The jars stay, so that the next start needs no network.

    [dim]Examples:[/dim]
      eventlib broker stop
      eventlib broker stop --keep
    """
    from eventlib.cli.broker import stop_cluster

    stop_cluster(directory, keep=keep, as_json=as_json)


@broker.command(cls=Command)
def status(directory: DirectoryOption = DEFAULT_DIRECTORY, as_json: JsonOption = False) -> None:
    """Show which nodes run, and where their logs are.

    Ends with exit code 1 unless all of them run.

    [dim]Example:[/dim]
      eventlib broker status --json | jq -r .url
    """
    from eventlib.cli.broker import print_status

    raise typer.Exit(print_status(directory, as_json=as_json))
