"""The commands that keep a log elsewhere and bring it back: their names, their options and their help."""

from typing import Annotated

import typer

from eventlib.cli.options import AppOption, JsonOption, LogOption, LogOptions


def backup(
    context: typer.Context,
    to: Annotated[
        str, typer.Option("--to", metavar="FILE|DIR", help="A new file, or a directory (one that is there, or DIR/).")
    ],
    full: Annotated[
        bool, typer.Option("--full", metavar="", help="In a directory: all of it, not what is new.")
    ] = False,
    as_json: JsonOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Keep a log in a file elsewhere, while services run and write.

    It is the log as of one moment. Each record is held to its checksum, and
    each partition to its digest, after they were written; a manifest beside it
    names ends, digests and the file's SHA-256. Into a directory, the first is
    whole and the next ones are what is new: ask as often as you like.

    What was cut short counts for nothing, and is removed by the next one. Exit
    code 1 when something in the log is damaged; the backup is made, and says
    what. A log on Kafka has replicas: see python -m analytics archive.

    [dim]Examples:[/dim]
      eventlib backup --to /mnt/backups/shop/
      eventlib backup --to shop-2026-01-31.db --json | jq .sha256
    """
    from eventlib.cli.backup import print_backup

    raise typer.Exit(print_backup(LogOptions.of(context, app, log).url, to, full=full, as_json=as_json))


def restore(
    source: Annotated[str, typer.Option("--from", metavar="FILE|DIR", help="A backup; of a directory the newest.")],
    target: Annotated[str, typer.Option("--to", metavar="URL", help="The log: sqlite:///path/to.db.")],
    live: Annotated[
        str | None,
        typer.Option(
            "--live",
            metavar="URL",
            help="A log or archive that may have seen more: archive:DIR.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", metavar="", help="Also in the place of a log that has more, or cannot be read.")
    ] = False,
    reason: Annotated[
        str, typer.Option("--reason", metavar="WHY", help="Kept in the log, with --force.", show_default=False)
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Put a backup in the place of a log, and name what is lost.

    Stop the services first. All of the backup is verified before anything is
    touched. A log that is there and has more is left alone, unless you say
    --force --reason WHY; it is kept beside, under another name.

    What the log that is there, its mark, the local stores and --live have seen
    beyond the backup is lost, is named, and recorded in the log, which then
    has a new id: stores, tables and views of what was lost are not used. Else
    it keeps its id, and they go on from where they are.

    [dim]Examples:[/dim]
      eventlib restore --from /mnt/backups/shop --to sqlite:///var/shop.db
      eventlib restore --from backups --to sqlite:///var/shop.db --live archive:/mnt/archive
    """
    from eventlib.cli.backup import print_restored
    from eventlib.cli.person import why

    print_restored(source, target, live, why(reason) if force else None, as_json=as_json)
