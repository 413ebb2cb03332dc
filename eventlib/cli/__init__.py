"""The command line, `eventlib`: run an application's services, and look at its log."""

import sys
from collections.abc import Sequence

from eventlib.cli.commands import app
from eventlib.cli.ending import run_command


def main() -> None:
    """Run the command line, and exit."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command, and return its exit code."""
    return run_command(app, "eventlib", arguments)
