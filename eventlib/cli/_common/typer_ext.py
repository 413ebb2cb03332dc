"""Typer's commands and groups, adapted to this command line."""

import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from typer import Typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from eventlib.cli._common.options import with_log_options

F = TypeVar("F", bound=Callable[..., None])


class ReaderGone(Exception):
    """The reader of the output has closed the pipe: there is nothing left to do."""


class _Argument(TyperArgument):
    """An argument whose help shows its name instead of its type."""

    def display_type_rich(self, ctx: Any) -> str | None:
        """Return nothing."""
        del ctx
        return None


class Command(TyperCommand):
    """A command whose help shows types only where they help."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for parameter in self.params:
            if type(parameter) is TyperArgument:
                parameter.__class__ = _Argument

    def get_help_option(self, ctx: Any) -> TyperOption | None:
        """Return the help option."""
        return _plain(super().get_help_option(ctx))


class CountingCommand(Command):
    """A command whose --log may have no URL: then it is the log that all commands use."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments, with --log's URL made explicit."""
        pairs = zip(args, [*args, "-"][1:], strict=True)
        explicit = ["--log=" if arg == "--log" and after.startswith("-") else arg for arg, after in pairs]
        return super().parse_args(ctx, explicit)


class Group(TyperGroup):
    """A group of commands, in which a closed pipe is no error."""

    def get_help_option(self, ctx: Any) -> TyperOption | None:
        """Return the help option."""
        return _plain(super().get_help_option(ctx))

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named. Raises: ReaderGone, before Typer makes an exit code of it."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise ReaderGone from error


class Commands(Typer):
    """A group of commands: each function's LogOptions are the options --app and --log."""

    def __init__(self, **more: Any) -> None:
        super().__init__(add_completion=False, cls=Group, **more)

    def command(self, name: str | None = None, *, cls: Any = Command, **more: Any) -> Callable[[F], F]:
        """Return a decorator that makes a command of a function, which stays what it is."""
        register = super().command(name, cls=cls, **more)

        def registered(function: F) -> F:
            register(with_log_options(function))
            return function

        return registered


def group(summary: str) -> Commands:
    """Return a group of commands, which shows its help when none of them is named."""
    return Commands(no_args_is_help=True, help=summary)


def _plain(option: TyperOption | None) -> TyperOption | None:
    if option is not None:
        option.metavar = ""
        option.help = "Show this help."
    return option


def let_go_of_stdout() -> None:
    """Redirect stdout to nothing: its reader is gone, and the interpreter still flushes it at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
