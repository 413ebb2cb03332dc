"""Settings that save time in a process that does one thing and ends."""

import atexit
import gc

_GROWTH = 50_000
"""After how many new objects Python looks for cycles: imports create none, and the search costs a sixth of them."""


def look_for_cycles_seldom() -> None:
    """Spare a process most searches for cycles, and those at its end: what is left then goes with it anyway."""
    gc.set_threshold(_GROWTH)
    atexit.unregister(gc.freeze)  # when it is called again
    atexit.register(gc.freeze)
