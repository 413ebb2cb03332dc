"""How help looks: a switch takes no value, so no type stands beside it."""

from typing import Any

from typer.core import TyperCommand, TyperGroup, TyperOption


class Command(TyperCommand):
    """A command whose --help stands there without a type."""

    def get_help_option(self, ctx: Any) -> TyperOption | None:
        """Return the help option."""
        return _plain(super().get_help_option(ctx))


class Group(TyperGroup):
    """A group of commands whose --help stands there without a type."""

    def get_help_option(self, ctx: Any) -> TyperOption | None:
        """Return the help option."""
        return _plain(super().get_help_option(ctx))


def _plain(option: TyperOption | None) -> TyperOption | None:
    if option is not None:
        option.metavar = ""
        option.help = "Show this help."
    return option
