"""A bug that is planted: how, and which law it has to break."""

from collections.abc import Callable
from typing import NamedTuple

import pytest

Plant = Callable[[pytest.MonkeyPatch], None]


class Mutant(NamedTuple):
    """One planted bug. Few schedules show a rare one: it is looked for in the long tests."""

    plant: Plant
    law: str
    is_rare: bool = False
