"""The command `eventlib`: its common options and its table of commands; a command's module is imported when it runs."""

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.main import get_command

from eventlib.cli._common.extras import installed_by
from eventlib.cli._common.options import AppOption, LogOption, Shared, flag
from eventlib.cli._common.typer_ext import Command, Commands, CountingCommand, Group


class LazyCommand(NamedTuple):
    """A command of the table: the module that defines its function or group, and its line in the help."""

    summary: str
    module: str = ""  # the command's own name if empty
    cls: type[Command] = Command
    extra: str | None = None  # the one that installs all that it imports, where a package is in several

    def load(self, name: str) -> Any:
        """Import the command's module, and return the command or group. Raises: WiringError that names its extra."""
        with installed_by(self.extra) if self.extra else nullcontext():
            own = name.replace("-", "_")
            found = getattr(import_module(f"eventlib.cli.{self.module or own}"), own)
        if not isinstance(found, typer.Typer):
            single = Commands()
            single.command(name, cls=self.cls)(found)
            found = single
        return get_command(found)


PANELS = {
    "Run": {
        "run": LazyCommand("Run the services until they are stopped (Ctrl-C or SIGTERM).", module="run_services"),
        "publish": LazyCommand("Append one external event to the log, and print its offset."),
        "token": LazyCommand("Make a named token for a machine; its text is printed once, and kept nowhere."),
        "admin": LazyCommand("Serve an HTTP API for operators, until Ctrl-C: look at services, and act."),
        "console": LazyCommand("Serve the console, until Ctrl-C: find a saga, see why, act, in a browser."),
        "mcp": LazyCommand("Answer an assistant's questions about a log, until it hangs up; read-only."),
        "doctor": LazyCommand("Find problems of the log, and of this machine's connection to it."),
        "repair": LazyCommand("Write the rows of partitions again that a damaged SQLite log's records imply."),
        "pack": LazyCommand("Pack an SQLite log's records as compressed batches; services may run."),
        "config": LazyCommand("Print every setting: its value, its source, its default, and what it means."),
        "backup": LazyCommand("Back up a log to a file while services run and write."),
        "restore": LazyCommand("Replace a log with a backup, and list what is lost.", module="backup"),
        "forget": LazyCommand("Erase a person: destroy the key of their personal data, and print the receipt."),
        "subjects": LazyCommand("Make the master key; list erasures; export what is kept of a person."),
        "copy": LazyCommand("Copy a log to Kafka: its history, its states, and its in-flight sagas."),
        "outbox": LazyCommand("Bring events that stand in a database's outbox to the log."),
        "sink": LazyCommand("Write events into tables of a database, each once."),
        "webhook": LazyCommand("Deliver events to subscribers by HTTP, signed, those of a key in order."),
        "live": LazyCommand("Run the live views of services (all by default) until they are stopped.", extra="live"),
        "broker": LazyCommand("Run Apache Kafka on this machine, for development."),
    },
    "Look at the log": {
        "status": LazyCommand("Show the status of services: owners, lag, pending, parked, overdue."),
        "watch": LazyCommand("Watch services, sagas by state and the newest causes of what is parked."),
        "topics": LazyCommand("List the topics: what they contain, and how many records."),
        "tail": LazyCommand("Print the records of topics, merged by time."),
        "sagas": LazyCommand("Find sagas: by status, by what they wait for, and by declared attributes."),
        "sql": LazyCommand("Ask in SQL over events, states and sagas, as they are now."),
        "saga": LazyCommand("Show one saga across all services, and what caused each event."),
        "state": LazyCommand("Show a decider's state for a key, now or at a point in time."),
        "history": LazyCommand("Show what a decider did with a key, step by step."),
        "replay": LazyCommand("Replay the recorded history with today's code, and compare."),
        "debug": LazyCommand("Stop in a handler under the debugger, with the recorded state and event."),
        "prove": LazyCommand(
            "Compare what versions of the code decide on a log, and prove a change before it is deployed."
        ),
        "acts": LazyCommand("List what people did to running services: who, what, when and why."),
        "deployments": LazyCommand("List which code the services were started with, and when."),
        "parked": LazyCommand("List inputs that could not be handled; retry, edit or discard them."),
    },
    "Change a running service": {
        "pause": LazyCommand("Hold back a service, a decider, a kind of effect or a key, until resumed."),
        "resume": LazyCommand("Resume what was paused under the same names.", module="pause"),
        "reset": LazyCommand("Move a service's offsets on purpose, or make it skip one input."),
        "reset-clock": LazyCommand("Bring tasks back whose time a wrong clock has set ahead."),
        "rerun": LazyCommand("Reprocess a service's history in a shadow, and show what differs."),
    },
    "Look at the wiring": {
        "check": LazyCommand("Find faults in the wiring: missing handlers, missing compensations."),
        "graph": LazyCommand("Draw the choreography: which event can follow from which.", cls=CountingCommand),
        "export": LazyCommand("Export contracts, dashboards, alerts and manifests for other tools."),
        "schemas": LazyCommand("Check the contracts of events and states, register them, and serve them."),
    },
    "Build": {
        "simulate": LazyCommand("Run the services under every kind of fault, and check the invariants."),
        "new": LazyCommand("Create a new service that runs, with its test."),
    },
}
"""Every command by its help panel; a test compares each summary with the command's own help."""


MOVED = {
    "bisect": ("prove bisect", []),
    "corpus cut": ("prove corpus", []),
    "diff": ("prove diff", []),
    "prove --deploy": ("prove deploy", []),
    "prove --in-flight": ("prove in-flight", []),
    "replay --break-at": ("debug", ["--key -k", "--break-at"]),
    "rerun --drop --yes": ("rerun drop", ["--drop"]),
    "rerun --drop": ("rerun drop", ["--drop"]),
    "rerun --into": ("rerun begin", ["--into"]),
    "rerun --list": ("rerun list", []),
    "rerun --switch": ("rerun switch", ["--switch"]),
    "shrink": ("prove shrink", []),
}
"""Commands of earlier releases: where each is now, and which of its options are arguments there, behind the others."""


def as_of_now(args: list[str]) -> list[str]:
    """Return what a command line of an earlier release is now, and name the new command on stderr."""
    given = {args[0], *(arg.partition("=")[0] for arg in args[1:])}
    for old, (new, options) in MOVED.items():
        if args[0] == old.split()[0] and given >= {*old.split()}:
            sys.stderr.write(f"`eventlib {old}` is `eventlib {new}` now\n")
            gone, behind = {*old.split()[1:]} - {*options}, list[str]()
            rest = [arg for arg in args[1:] if arg not in gone]
            for option in options:
                rest, value = _without(rest, option.split())
                behind += value
            return [*new.split(), *rest, *behind]
    return args


def _without(args: list[str], names: list[str]) -> tuple[list[str], list[str]]:
    """Return arguments without an option, and its value."""
    for number, arg in enumerate(args):
        name, sign, value = arg.partition("=")
        if name in names:
            end = number + 1 if sign else number + 2
            return [*args[:number], *args[end:]], [value] if sign else args[number + 1 : end]
    return args, []


class _LazyGroup(Group):
    """The group of all commands: its help prints the table; only the command that runs is imported."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for panel, commands in PANELS.items():
            for name, command in commands.items():
                self.commands[name] = Command(name, help=command.summary, rich_help_panel=panel)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options, with those of completion as flags that they are."""
        params = super().get_params(ctx)
        for each in params:
            if each.name in {"install_completion", "show_completion"}:
                each.metavar = ""
        return params

    def resolve_command(self, ctx: Any, args: Sequence[str]) -> Any:
        """Return the name, the imported command and the remaining arguments."""
        name, _, rest = super().resolve_command(ctx, as_of_now([*args]))
        found = {name: each for commands in PANELS.values() for name, each in commands.items()}
        return name, None if name is None else found[name].load(name), rest


app = typer.Typer(
    name="eventlib",
    cls=_LazyGroup,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version
        from importlib.util import find_spec

        core = find_spec("eventlib.runtime.task")
        is_source = core is None or str(core.origin).endswith(".py")
        print(f"eventlib {version('eventlib-sagas')} ({'pure Python' if is_source else 'compiled core'})")
        raise typer.Exit


VersionOption = Annotated[
    bool,
    flag("--version", "Print the version, and whether the core is compiled.", is_eager=True, callback=_print_version),
]


@app.callback()
def eventlib(
    context: typer.Context,
    app: AppOption = None,
    log: LogOption = None,
    version: VersionOption = False,  # noqa: ARG001  its callback has acted already
) -> None:
    """Run event-driven services, and inspect what they did.

    --app and --log can be given before or after the command's name.

    [dim]Begin with:[/dim]
      eventlib check
      eventlib run
      eventlib saga KEY
    """
    context.obj = Shared(app, log)
