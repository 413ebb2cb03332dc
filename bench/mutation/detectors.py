"""What may notice a mutant: the quick tests, the corpus, the simulator, and the proof of what is in flight."""

import signal
import time
from collections.abc import Sequence
from random import Random
from types import FrameType
from typing import NoReturn, Protocol

import pytest
from _pytest.runner import runtestprotocol

from bench.mutation.recorded import CORPUS, LOG
from eventlib.proof.by_revision import prove_in_flight
from eventlib.proof.corpus import Corpus
from eventlib.proof.proving import ProofBounds
from eventlib.replay.comparison import Describer
from eventlib.simulation.scenario import drawn_from
from eventlib.simulation.schedule import Schedule
from eventlib.simulation.stage import Stage

SCHEDULES = 100
MOMENTS = 400
TOO_LONG = " takes too long"
_TOO_MANY = "more than"


class Detector(Protocol):
    """Returns what it notices; an exception is noticed, too."""

    def __call__(self) -> str | None:
        """Return what is wrong, or None."""


class Corpora:
    """Decides the corpus's decisions again."""

    def __init__(self) -> None:
        from services import shop

        self._decisions = [*Corpus.open(CORPUS).decisions(shop)]
        self._describer = Describer(shop)

    def __call__(self) -> str | None:
        """Return the first decision that is another."""
        for name, decision in self._decisions:
            if isinstance(decision, Exception) or decision.difference(self._describer) is not None:
                return name
        return None


class Simulator:
    """Plays the shop under schedules of faults."""

    def __init__(self, schedules: int = SCHEDULES) -> None:
        from services import shop

        self._stage = Stage(shop)
        self._schedules = schedules

    def __call__(self) -> str | None:
        """Return what the first schedule that breaks an invariant breaks. Raises: InvariantViolated."""
        from services.simulation.scenario import ShopScenario

        for seed in range(self._schedules):
            choose = drawn_from(Random(seed))
            Schedule(self._stage, ShopScenario(), 1 + seed % 3, choose, keep_story=False).play()
        return None


class Proof:
    """Proves what is in flight on the recorded log, each saga up to so many moments."""

    def __init__(self) -> None:
        from services import shop

        self._stage = Stage(shop)

    def __call__(self) -> str | None:
        """Return why a saga does not end lawfully; one with more moments than are explored is not noticed."""
        from services.simulation.scenario import ShopScenario

        found = prove_in_flight(f"sqlite:///{LOG}", self._stage, ShopScenario, ProofBounds(moments=MOMENTS))
        return next((each.why for each in found.explored if each.why and not each.why.startswith(_TOO_MANY)), None)


class Tests:
    """Runs tests, those first that take least; each may take so many seconds of the clock."""

    def __init__(self, items: Sequence[tuple[pytest.Item, float]]) -> None:
        self._items = items

    def __call__(self) -> str | None:
        """Return the first test that fails; it is noted where it has waited in vain, for as long as it waits at most."""
        signal.signal(signal.SIGALRM, _end)
        for number, (item, limit_s) in enumerate(self._items, start=1):
            following = self._items[number][0] if number < len(self._items) else None
            signal.setitimer(signal.ITIMER_REAL, limit_s, 1.0)  # again and again: the test may catch what ends it
            began = time.monotonic()
            if failures := [report for report in _reports(item, following) if report.failed]:
                is_late = time.monotonic() >= began + limit_s or any(map(_has_waited, failures))
                return f"{item.nodeid}{TOO_LONG}" if is_late else item.nodeid
        return None


def _end(_: int, __: FrameType | None) -> NoReturn:
    raise TimeoutError("the test takes too long")


def failed(item: pytest.Item, following: pytest.Item | None) -> bool:
    """Run a test, and return whether it fails."""
    return any(report.failed for report in _reports(item, following))


def _reports(item: pytest.Item, following: pytest.Item | None) -> Sequence[pytest.TestReport]:
    return runtestprotocol(item, nextitem=following, log=False)


def _has_waited(report: pytest.TestReport) -> bool:
    crash = getattr(report.longrepr, "reprcrash", None)
    return crash is not None and crash.message.startswith("TimeoutError")
