"""The analytics' commands: `python -m analytics COMMAND`."""

from collections.abc import Sequence

from analytics.cli import log, tables, whatif  # noqa: F401  each adds its commands
from analytics.cli._common import app
from eventlib.command_line import run_command


def run(arguments: Sequence[str]) -> int:
    """Run one command, and return its exit code."""
    return run_command(app, "python -m analytics", list(arguments))
