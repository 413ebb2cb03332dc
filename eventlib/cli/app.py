"""The command `eventlib`: its common options, and a table of its commands, whose modules are imported when they run."""

from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.main import get_command

from eventlib.cli._common.options import AppOption, LogOption, Shared
from eventlib.cli._common.typer_ext import Command, CountingCommand, Group


class LazyCommand(NamedTuple):
    """A command of the table: where its function or group is defined under its name, and what the help shows."""

    summary: str
    module: str = ""  # the command's own name if empty
    cls: type[Command] = Command

    def load(self, name: str) -> Any:
        """Import the command's module, and return the command or group."""
        found = getattr(import_module(f"eventlib.cli.{self.module or name}"), name)
        if not isinstance(found, typer.Typer):
            single = typer.Typer(add_completion=False)
            single.command(name, cls=self.cls)(found)
            found = single
        return get_command(found)


PANELS = {
    "Run": {
        "run": LazyCommand("Run the services until they are stopped (Ctrl-C or SIGTERM).", module="run_services"),
        "publish": LazyCommand("Put one event on the log, from outside, and print its position."),
        "admin": LazyCommand("Serve an HTTP API for operators, until Ctrl-C: status, and what is parked."),
        "doctor": LazyCommand("Find what goes wrong first: between this machine and its log, and on it."),
        "repair": LazyCommand("Write back what can be proved of a damaged SQLite log; nothing is guessed."),
        "config": LazyCommand("Print every setting: its value, where that comes from, its default, and what it means."),
        "backup": LazyCommand("Keep a log in a file elsewhere, while services run and write."),
        "restore": LazyCommand("Put a backup in the place of a log, and name what is lost.", module="backup"),
        "copy": LazyCommand("Take a log to Kafka: its history, states, and sagas that are under way."),
        "live": LazyCommand("Run the live views of services (all by default) until they are stopped."),
        "broker": LazyCommand("Run Apache Kafka on this machine, for development."),
    },
    "Look at the log": {
        "status": LazyCommand("Show how services stand: owners, lag, what is pending, parked, overdue."),
        "topics": LazyCommand("List the topics: what they hold, and how much."),
        "tail": LazyCommand("Print the records of topics, merged by time."),
        "saga": LazyCommand("Show one saga over all services, and what caused what."),
        "state": LazyCommand("Show what a decider knows of a key, now or at a moment."),
        "history": LazyCommand("Show what a decider did with a key, step by step."),
        "replay": LazyCommand("Run today's code over the recorded past, and compare."),
        "parked": LazyCommand("See what could not be handled; try it again, edit it, or give it up."),
    },
    "Change the course of a service": {
        "reset": LazyCommand("Move a service's positions on purpose, or let it skip one input."),
        "rerun": LazyCommand("Run a service's past again beside it, by today's code, and show what differs."),
    },
    "Look at the wiring": {
        "check": LazyCommand("Look for faults in the wiring: what is forgotten, or never undone."),
        "graph": LazyCommand("Draw the choreography: what may follow from what.", cls=CountingCommand),
        "export": LazyCommand("Write the contracts, or what watches them run, in a form that others work with."),
        "schemas": LazyCommand("Check the contracts of events and states, register them, and serve them."),
    },
    "Build": {
        "simulate": LazyCommand("Play the services under every fault there is, and check the invariants."),
        "new": LazyCommand("Write a new service that runs, and its test."),
    },
}
"""Every command by its help panel; a test compares each summary with the command's own help."""


class _LazyGroup(Group):
    """The group of all commands: help shows the table, and only the command that runs is imported."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for panel, commands in PANELS.items():
            for name, command in commands.items():
                self.commands[name] = Command(name, help=command.summary, rich_help_panel=panel)

    def resolve_command(self, ctx: Any, args: Sequence[str]) -> Any:
        """Return the name, the imported command and the remaining arguments."""
        name, _, rest = super().resolve_command(ctx, [*args])
        found = {name: each for commands in PANELS.values() for name, each in commands.items()}
        return name, None if name is None else found[name].load(name), rest


app = typer.Typer(
    name="eventlib",
    cls=_LazyGroup,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
    add_completion=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"eventlib {version('eventlib-sagas')}")
        raise typer.Exit


VersionOption = Annotated[
    bool, typer.Option("--version", metavar="", is_eager=True, callback=_print_version, help="Print the version.")
]


@app.callback()
def eventlib(
    context: typer.Context,
    app: AppOption = None,
    log: LogOption = None,
    version: VersionOption = False,  # noqa: ARG001  its callback has acted already
) -> None:
    """Run event-driven services, and look at what they did.

    --app and --log stand before or after the command's name.

    [dim]Begin with:[/dim]
      eventlib check
      eventlib run
      eventlib saga KEY
    """
    context.obj = Shared(app, log)
