"""The commands for somebody who operates a log: their names, their options and their help."""

from typing import Annotated

import typer

from eventlib.cli.options import AppOption, JsonOption, LogOption, LogOptions, Shared


def doctor(
    context: typer.Context,
    deep: Annotated[
        bool, typer.Option("--deep", metavar="", help="Also verify every record, and what services noted of them.")
    ] = False,
    same_as: Annotated[
        str | None,
        typer.Option(
            "--same-as",
            metavar="URL",
            help="Also compare every record with another log: an archive, a backup, a copy.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Find what goes wrong first: between this machine and its log, and on it.

    For Kafka: addresses, TLS and sign-in, advertised listeners, versions,
    clocks, rights, replicas, settings. For SQLite: the file, its journal and
    locks. For both: topics against their declarations, events from the
    future, room on disk. Nothing is changed, each finding says what to do.

    With --deep all of the log is read: checksums, gaps, each partition's digest
    and all tables of an SQLite file; what Kafka and archives verify elsewhere;
    and whether tasks have been past the end of a topic, which has lost its tail.

    With --same-as two logs are compared, record by record: what was changed,
    taken away or added on one of them is named. Compacted topics are left out.

    Exit code 1 when there are errors.

    [dim]Examples:[/dim]
      eventlib doctor
      eventlib doctor --deep --log archive:var/archive --same-as sqlite:///var/shop.db
      eventlib doctor --deep --json | jq 'select(.offset != null) | [.topic, .offset, .key]'
      eventlib doctor --log kafka://broker:9092 --json | jq 'select(.verdict != "ok")'
    """
    from eventlib.cli.doctor import print_diagnoses

    raise typer.Exit(print_diagnoses(LogOptions.of(context, app, log), deep=deep, same_as=same_as, as_json=as_json))


def repair(  # noqa: PLR0913, PLR0917  one argument for each option
    context: typer.Context,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Only say what would be done; services may run.")
    ] = False,
    seal: Annotated[
        bool,
        typer.Option("--seal", metavar="", help="Give records of an older release their checksums, as they are now."),
    ] = False,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", metavar="", help="Go on without records that are gone from the log's end.")
    ] = False,
    reason: Annotated[
        str, typer.Option("--reason", metavar="WHY", help="Kept in the log, with --accept-loss.", show_default=False)
    ] = "",
    as_json: JsonOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Write back what can be proved of a damaged SQLite log; nothing is guessed.

    A flipped bit in a record or a small table, a record whose position has
    changed, a partition's row that its records imply. The file as it was stays
    beside it. Stop the services first. What is left is named, with its place.

    Exit code 1 when something is left.

    --accept-loss lets a log go on that has lost acknowledged records, and so
    refuses to be written: the loss is recorded, and the log has a new id, so
    that no store or table of what was lost is used.

    [dim]Examples:[/dim]
      eventlib repair --dry-run
      eventlib repair
      eventlib repair --seal
      eventlib repair --accept-loss --reason "the disk died, no backup since noon"
    """
    if accept_loss:
        from eventlib.cli.accepting import print_accepted
        from eventlib.cli.person import why

        print_accepted(LogOptions.of(context, app, log).url, why(reason))
        return
    from eventlib.cli.repair import repair_log

    raise typer.Exit(repair_log(LogOptions.of(context, app, log), dry_run=dry_run, seals=seal, as_json=as_json))


def config(context: typer.Context, as_json: JsonOption = False, app: AppOption = None, log: LogOption = None) -> None:
    """Print every setting: its value, where that comes from, its default, and what it means.

    A setting comes from an option, else from the environment, else from
    pyproject.toml, else it is the default. Secrets show only whether they are
    set. One that is wrong, or that nobody knows, is named, and exit code 1.

    [dim]Examples:[/dim]
      eventlib config
      eventlib config --json | jq 'select(.source != "default")'
    """
    from eventlib.cli.config import print_config
    from eventlib.config.effective import Given

    before = Shared.of(context)
    place, given = LogOptions.of(context, app, log), Given(log or before.log, app or before.app)
    print_config(place, given, as_json=as_json)


def status(  # noqa: PLR0913, PLR0917  one argument for each option
    context: typer.Context,
    watch: Annotated[bool, typer.Option("--watch", "-w", metavar="", help="Go on until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option("--every", metavar="SECONDS", min=0.1, help="How often, with --watch.")] = 2.0,
    sagas: Annotated[
        bool,
        typer.Option("--sagas", metavar="", help="Count sagas by state, too: reads each state once, about 10 µs each."),
    ] = False,
    max_behind: Annotated[
        float, typer.Option("--max-behind", metavar="SECONDS", min=0, help="How old the oldest unhandled input may be.")
    ] = 60.0,
    max_parked: Annotated[
        int, typer.Option("--max-parked", metavar="N", min=0, help="How many keys and effects may be parked.")
    ] = 0,
    max_overdue: Annotated[
        int, typer.Option("--max-overdue", metavar="N", min=0, help="How many sagas may be overdue, with --sagas.")
    ] = 0,
    allow_stopped: Annotated[
        bool, typer.Option("--allow-stopped", metavar="", help="Also healthy when nobody runs a task.")
    ] = False,
    as_json: JsonOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Show how services stand: owners, lag, what is pending, parked, overdue.

    Read from the log alone, whether the services run or not: where tasks are
    stands on their changelogs. Beside an SQLite log it costs milliseconds;
    from elsewhere the first look reads the changelogs, and --watch then only
    what is new.

    Exit code 1 when it is not healthy: a task without an owner, one that is
    behind for too long, too much parked or overdue.

    [dim]Examples:[/dim]
      eventlib status
      eventlib status --watch --sagas
      eventlib status --json --max-behind 10 | jq .complaints
    """
    from eventlib.cli.status import print_status, watch_status
    from eventlib.operations.status import Limits

    place, limits = LogOptions.of(context, app, log), Limits(max_behind, max_parked, max_overdue, allow_stopped)
    if not watch:
        raise typer.Exit(print_status(place, limits, sagas=sagas, as_json=as_json))
    if as_json:
        raise typer.BadParameter("shows a screen: call it again and again instead", param_hint="--watch / --json")
    watch_status(place, limits, every, sagas=sagas)


def admin(
    context: typer.Context,
    http: Annotated[str, typer.Option("--http", metavar="PORT", help="A port of this machine, or HOST:PORT.")],
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Serve an HTTP API for operators, until Ctrl-C: status, and what is parked.

    What `eventlib status` and `eventlib parked` do, for tools. It is a process
    of its own, on a port of its own: nothing that customers reach leads there.
    Requests carry EVENTLIB_ADMIN_TOKEN as a bearer token; without that set,
    there is no such API. /healthz needs none, and tells 200 or 503.

    [dim]Examples:[/dim]
      EVENTLIB_ADMIN_TOKEN=$(openssl rand -hex 32) eventlib admin --http 9000
      curl -H "Authorization: Bearer $TOKEN" localhost:9000/parked
      curl -H "Authorization: Bearer $TOKEN" localhost:9000/parked/retry --json '{"by":"ada"}'
    """
    from eventlib.cli.admin import serve_admin

    serve_admin(LogOptions.of(context, app, log), http)


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
