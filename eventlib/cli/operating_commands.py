"""The commands for somebody who operates a log: their names, their options and their help."""

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
