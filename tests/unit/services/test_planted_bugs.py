"""The invariants are worth something: each bug that is planted into a decider breaks one in some interleaving."""

import pytest

from tests.saga.mutants_of_services import SERVICES
from tests.unit.services.test_interleavings import obey

SEEDS = 2_000
ELSEWHERE = {  # what shows only where time passes, effects have faults, or events come out of order for long
    "an order ends before dispatch has answered",
    "a cancellation opens what was forgotten",
    "silence taken for a refusal",
    "two questions in one effect",
}


@pytest.mark.parametrize("bug", sorted(SERVICES.keys() - ELSEWHERE))
def test_a_wrong_decider_breaks_a_law(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    SERVICES[bug].plant(monkeypatch)
    assert breaks_a_law()


def breaks_a_law() -> bool:
    for seed in range(SEEDS):
        try:
            obey(seed)
        except AssertionError:
            return True
    return False
