"""What people tell a task to do on purpose: each act is handled once, and journalled with its reason."""

from typing import NamedTuple


class Skip(NamedTuple):
    """An input that is not to be handled, whenever it comes: `why` says who wants that, and for what reason.

    With `once` it comes once more, and the mark is gone then; otherwise it is never handled.
    """

    event_id: str
    why: str
    once: bool = False


class Move(NamedTuple):
    """The task goes on in a topic at offset `to`; `why` says who wants that, and for what reason."""

    topic: str
    to: int
    why: str
