"""A bug that is planted: how, and which invariant it has to break."""

from collections.abc import Callable
from typing import NamedTuple

import pytest

Plant = Callable[[pytest.MonkeyPatch], None]


class Mutant(NamedTuple):
    """One planted bug, the invariant that it breaks, and the first schedule that shows it."""

    plant: Plant
    invariant: str
    seed: int
