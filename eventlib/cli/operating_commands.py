"""The commands for somebody who operates a log: their names, their options and their help."""

from typing import Annotated

import typer

from eventlib.cli.options import AppOption, JsonOption, LogOption, Place


def doctor(context: typer.Context, as_json: JsonOption = False, app: AppOption = None, log: LogOption = None) -> None:
    """Find what goes wrong first: between this machine and its log, and on it.

    For Kafka: addresses, TLS and sign-in, advertised listeners, versions,
    clocks, rights, replicas, settings. For SQLite: the file, its journal and
    locks. For both: topics against their declarations, events from the
    future, room on disk. Nothing is changed, each finding says what to do.

    Exit code 1 when there are errors.

    [dim]Examples:[/dim]
      eventlib doctor
      eventlib doctor --log kafka://broker:9092 --json | jq 'select(.verdict != "ok")'
    """
    from eventlib.cli.doctor import print_diagnoses

    raise typer.Exit(print_diagnoses(Place.of(context, app, log), as_json=as_json))


def copy(
    source: Annotated[str, typer.Option("--from", metavar="URL", help="The log as it is: sqlite:///path/to.db.")],
    target: Annotated[
        str, typer.Option("--to", metavar="URL", help="Where it goes: kafka://host:port/[?prefix=NAME.].")
    ],
    source_stays: Annotated[
        bool, typer.Option("--source-stays", metavar="", help="Let the source go on taking records: for a trial.")
    ] = False,
    from_scratch: Annotated[
        bool, typer.Option("--from-scratch", metavar="", help="Discard an unfinished copy there first.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Take a log to Kafka: its history, states, and sagas that are under way.

    Stop the services first; they go on from the copy. Offsets, keys, headers
    and times stay as they are, and both sides are compared at the end. A copy
    that was broken off goes on when the command is given again; nobody can use
    it before it is whole. Then the source takes nothing more: two logs that
    both go on would tell two stories.

    [dim]Example:[/dim]
      eventlib copy --from sqlite:///var/shop.db --to kafka://localhost:9092
    """
    from eventlib.cli.copy import copy_log

    copy_log(source, target, source_stays=source_stays, from_scratch=from_scratch, as_json=as_json)
