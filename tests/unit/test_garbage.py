"""A process that runs services looks for cycles seldom."""

import gc

from eventlib.command_line import collect_garbage_seldom


def test_cycles_are_looked_for_seldom_and_not_in_what_is_there_already() -> None:
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    try:
        collect_garbage_seldom(growth=77_000)
        assert gc.get_threshold() == (77_000, 50, 1_000)
        assert gc.get_freeze_count() > frozen
    finally:
        gc.set_threshold(*before)
