"""Signals as a person at a terminal sends them, wherever the tests are started from."""

import signal


def hear_ctrl_c() -> None:
    """Hear SIGINT here, and in every process that is started from here.

    A shell starts jobs in the background (`make test &`) with SIGINT ignored, and a process passes on what it ignores: a
    command that a test interrupts would never hear of it. What a process handles, its children get as the default.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
