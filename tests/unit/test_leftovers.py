"""What a test leaves behind does not reach the next one."""

import logging

from eventlib.telemetry.logs import set_up_logging
from tests.leftovers import levels_of_logging_kept


def test_a_command_in_this_process_leaves_no_level_of_logging() -> None:
    root, known = logging.getLogger(), logging.getLogger("faust")
    before = root.level, known.level
    with levels_of_logging_kept():
        set_up_logging("json", "DEBUG", personal=False)
        root.setLevel(logging.DEBUG)
        logging.getLogger("first.seen.now").setLevel(logging.DEBUG)
        assert known.level == logging.INFO
    assert (root.level, known.level) == before
    assert logging.getLogger("first.seen.now").level == logging.NOTSET
