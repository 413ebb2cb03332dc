"""Runs `python -m analytics`."""

import logging
import signal
import sys

from analytics.cli import run

_ENDED = 128
"""From here on, exit codes are those of signals that have ended a command."""


def main() -> None:
    """Run a command, and exit; the processes that it started end with it, also after a signal."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    signal.signal(signal.SIGINT, _interrupt)
    # An interrupted call of the bridge to Spark prints a traceback; the error is raised as well.
    logging.getLogger().addHandler(logging.NullHandler())
    code = _ENDED
    try:
        code = run(sys.argv[1:])
    finally:
        if "pyspark" in sys.modules:
            from analytics.session import end_session

            end_session(well=code < _ENDED)
    sys.exit(code)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
