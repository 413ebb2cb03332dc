"""The command line, `eventlib`: one file for each command; it runs an application's services and inspects its log.

It knows every other package, and none knows it but `command_line`. Begin with `app`, the table of commands.
"""

import sys
from collections.abc import Sequence

from eventlib.cli._common.extras import lacking
from eventlib.errors import WiringError


def main() -> None:
    """Run the command line, and exit."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command, and return its exit code."""
    try:
        import eventlib.ground.posix  # noqa: F401  before anything needs what it has
        from eventlib.cli._common.exit_codes import run_command
        from eventlib.cli.app import app
    except ModuleNotFoundError as error:  # nothing that could say it better is there
        lacks = lacking(error)
        if lacks is None:
            raise
        sys.stderr.write(f"eventlib: {lacks}\n")
        return 1
    except WiringError as error:  # this system lacks what it needs
        sys.stderr.write(f"eventlib: {error}\n")
        return 1
    return run_command(app, "eventlib", arguments)
