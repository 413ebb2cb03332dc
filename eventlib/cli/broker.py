"""`eventlib broker`: an Apache Kafka cluster in a directory of this project."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from eventlib.cli._common import output
from eventlib.cli._common.fetching import fetched
from eventlib.cli._common.options import JsonOption, flag, option
from eventlib.cli._common.typer_ext import group
from eventlib.devtools.kafka.cluster import Cluster
from eventlib.devtools.kafka.config import ClusterConfig
from eventlib.devtools.kafka.jars import KAFKA
from eventlib.devtools.kafka.java import find_java
from eventlib.devtools.kafka.layout import alone_in
from eventlib.devtools.kafka.security import Sasl, Security
from eventlib.errors import BrokerFailed
from eventlib.telemetry.logs import tell

broker = group("Run Apache Kafka on this machine, for development.")


DirectoryOption = Annotated[
    Path, option("--dir", "DIR", "Where the cluster keeps its data, settings and log.", file_okay=False)
]

_SECURITY = "To try a client's security"
DEFAULT_DIRECTORY = Path("var/broker")
DEFAULT_PORT = 9092


def _sasl(text: str) -> Sasl:
    if text not in {*Sasl}:
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(Sasl)}")
    return Sasl(text)


@broker.command()
def start(  # noqa: PLR0913, PLR0917  one argument for each option
    nodes: Annotated[
        int | None, option("--nodes", "N", "1, or 3: each has all data, and one may fail. [dim]Default: 1[/dim]")
    ] = None,
    port: Annotated[
        int | None,
        option(
            "--port",
            "N",
            "The first node's port; the others take the next ones. 0 takes any free ports. [dim]Default: 9092[/dim]",
        ),
    ] = None,
    sasl: Annotated[
        Any,
        option(
            "--sasl",
            "plain|scram|oauthbearer",
            "Clients authenticate with this mechanism.",
            parser=_sasl,
            rich_help_panel=_SECURITY,
        ),
    ] = None,
    tls: Annotated[bool, flag("--tls", "Clients connect over TLS.", rich_help_panel=_SECURITY)] = False,
    user: Annotated[
        list[str] | None,
        option(
            "--user",
            "NAME:PASSWORD",
            "A client's user; may be repeated, the first may do everything. [dim]Default: admin:admin-secret[/dim]",
            rich_help_panel=_SECURITY,
        ),
    ] = None,
    authorize: Annotated[
        bool, flag("--authorize", "The other users may do only what ACLs allow.", rich_help_panel=_SECURITY)
    ] = False,
    directory: DirectoryOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Start a cluster, and print the URL of the log on it.

    It listens on this machine only. Its jars are downloaded once, from Maven
    Central. A cluster that was stopped with --keep, or died, continues from its
    data; for one that already runs, the URL is printed again.

    [dim]Examples:[/dim]
      eventlib broker start
      export EVENTLIB_LOG=$(eventlib broker start --nodes 3)
      eventlib broker start --sasl scram --tls --user ada:1815 --json
    """
    wanted = _security(sasl, user or [], tls=tls, authorize=authorize)
    new = ClusterConfig(nodes or 1, DEFAULT_PORT if port is None else port, wanted or Security())
    with alone_in(directory):
        found = Cluster.open(directory)
        ran = found is not None and found.is_running
        if found is not None:
            if nodes not in {None, found.config.nodes} or wanted not in (None, found.config.security):
                raise BrokerFailed(
                    f"a cluster with other options is in {found.directory}: "
                    "`eventlib broker stop` deletes it, or name another directory with --dir"
                )
            if port and port != found.nodes[0].ports.client:
                found.adopt(port)
        cluster = found or Cluster.create(directory, new)
        if not ran:
            fetched(KAFKA, find_java())
        cluster.start()
    if as_json:
        output.print_json([_status(cluster, directory)])
        return
    print(cluster.url, flush=True)
    what = "runs already" if ran else "continues from its data" if found else "runs"
    where = "" if directory == DEFAULT_DIRECTORY else f" --dir {directory}"
    tell(f"Kafka {KAFKA.version} {what}, in {directory}; `eventlib broker stop{where}` ends it and deletes its data.")
    if cluster.environment():
        tell("Clients need " + " ".join(f"{name}={value}" for name, value in cluster.environment().items()))


@broker.command()
def stop(
    keep: Annotated[bool, flag("--keep", "Keep the data for the next start.")] = False,
    directory: DirectoryOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Stop the cluster and delete all its data.

    The jars stay, so that the next start needs no network.

    [dim]Examples:[/dim]
      eventlib broker stop
      eventlib broker stop --keep
    """
    if Cluster.open(directory) is None:
        stopped, sentence = False, f"There is no broker in {directory}."
    else:
        with alone_in(directory):
            stopped = _end(directory, keep=keep)
        sentence = "Stopped; its data is kept for the next start." if keep else "Stopped, and its data deleted."
    if as_json:
        output.print_json([{"directory": str(directory), "stopped": stopped, "kept": keep}])
    else:
        print(sentence)


@broker.command()
def status(directory: DirectoryOption = DEFAULT_DIRECTORY, as_json: JsonOption = False) -> None:
    """Show which nodes run, and where their logs are.

    Exit code 1 unless all of them run.

    [dim]Example:[/dim]
      eventlib broker status --json | jq -r .url
    """
    cluster = Cluster.open(directory)
    if as_json:
        output.print_json([_status(cluster, directory)])
    elif cluster is None:
        print(f"There is no broker in {directory}: `eventlib broker start` starts one.")
    else:
        _print(_status(cluster, directory))
    raise typer.Exit(0 if cluster is not None and cluster.is_running else 1)


def _security(sasl: Sasl | None, users: Sequence[str], *, tls: bool, authorize: bool) -> Security | None:
    """Return the security that options ask for, None without any. Raises: BrokerFailed."""
    if not (sasl or users or tls or authorize):
        return None
    if users and sasl is None:
        raise BrokerFailed("--user names a user, but without --sasl clients are anonymous: choose one")
    asked = Security(sasl=sasl, tls=tls, authorize=authorize)
    named = {name: password for name, _, password in (each.partition(":") for each in users)}
    return replace(asked, users=named) if named else asked


def _end(directory: Path, *, keep: bool) -> bool:
    cluster = Cluster.open(directory)  # again: another process may have created it meanwhile
    if cluster is None:
        return False
    ran = any(node.pid is not None for node in cluster.nodes)
    if keep:
        cluster.stop()
    else:
        cluster.destroy()
    return ran


def _status(cluster: Cluster | None, directory: Path) -> dict[str, Any]:
    if cluster is None:
        return {"directory": str(directory), "running": False, "url": None, "environment": {}, "nodes": []}
    nodes = [
        {
            "node": node.number,
            "running": node.pid is not None,
            "pid": node.pid,
            "port": node.ports.client,
            "log": str(node.log),
        }
        for node in cluster.nodes
    ]
    return {
        "directory": str(directory),
        "running": cluster.is_running,
        "url": cluster.url,
        "kafka": KAFKA.version,
        "cluster_id": cluster.cluster_id,
        "environment": cluster.environment(),
        "nodes": nodes,
    }


def _print(status: dict[str, Any]) -> None:
    print(f"{status['url']}  Kafka {status['kafka']}, in {status['directory']}")
    runs, rests = Text("runs", style="green"), Text("does not run", style="red")
    output.print_table(
        ["node", "", "port", "process", "log"],
        (
            (
                str(node["node"]),
                runs if node["running"] else rests,
                str(node["port"]),
                str(node["pid"] or ""),
                node["log"],
            )
            for node in status["nodes"]
        ),
        whole=[""],
    )
