"""For an application's own command line: help and exit codes like those of `eventlib`."""

from typing import TYPE_CHECKING

from eventlib.ground.facade import lazy

if TYPE_CHECKING:
    from eventlib.cli._common.exit_codes import run_command
    from eventlib.cli._common.extras import lacking
    from eventlib.cli._common.fetching import fetched
    from eventlib.cli._common.output import (
        counted,
        print_json,
        printable,
        readable,
        short_id,
        table,
        terminal,
        warn,
    )
    from eventlib.cli._common.typer_ext import Command, Group
    from eventlib.model.project import load_choreography, load_named, nearest
    from eventlib.runtime.runtime import collect_garbage_seldom
    from eventlib.values import iso

__all__ = [
    "Command",
    "Group",
    "collect_garbage_seldom",
    "counted",
    "fetched",
    "iso",
    "lacking",
    "load_choreography",
    "load_named",
    "nearest",
    "print_json",
    "printable",
    "readable",
    "run_command",
    "short_id",
    "table",
    "terminal",
    "warn",
]

if not TYPE_CHECKING:  # a type checker would take it for a sign that any name is there
    __getattr__ = lazy(__name__)
