"""One worker of `eventlib run --workers`: stops, as at a signal, also when its supervisor is gone."""

import os
import signal
import sys
import threading

from eventlib.cli import run


def _stop_when_left() -> None:
    """Wait until standard input ends: the supervisor holds its other end."""
    while os.read(0, 1):  # not sys.stdin, whose lock would be held when the interpreter ends
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_stop_when_left, name="supervisor", daemon=True).start()
    sys.exit(run(sys.argv[1:]))
