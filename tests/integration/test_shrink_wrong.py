"""What a mistake has done to a saga, on a log that the mistake has written, becomes a small test against it."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from eventlib import EventLog
from eventlib.errors import ContractError
from eventlib.model.record import key_text
from eventlib.proof.against import OtherCode, other_code
from eventlib.proof.saga_tests import SagaHistories
from eventlib.proof.small_tests import SmallTest, of_difference, of_failure
from eventlib.replay.key_history import KeyHistory
from eventlib.simulation.scenario import drawn_from
from eventlib.simulation.schedule import InvariantViolated, Schedule
from eventlib.simulation.stage import Stage
from services import shop
from services.simulation.later import LaterScenario
from services.simulation.scenario import ShopScenario
from tests.integration.reopening import everything
from tests.integration.repository import Repository
from tests.integration.test_shrink import histories, run
from tests.saga.planted import written_instead
from tests.saga.shop_runs import ROOT
from tests.saga.wrong_decisions import WRONG, WrongDecision

MOST_EVENTS = 6
SAMPLE = ("a refund of another charge", "an overdue order has another reason", "a reservation is never forgotten")
"""One that emits, one of a deadline, one of what is due: the others are of the long tests."""


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OtherCode]:
    repository = Repository(tmp_path_factory.mktemp("right"))
    with other_code(repository.directory, "services:shop", "recorded") as other:
        yield other


@dataclass
class Written:
    """What a schedule with a mistake has written: the histories of the decider that makes it, and all sagas."""

    histories: Sequence[KeyHistory]
    sagas: Sequence[SagaHistories]


async def written_with(wrong: WrongDecision) -> Written:
    """Play a schedule with a mistake, until it breaks an invariant or ends."""
    scenario = LaterScenario() if wrong.later else ShopScenario()
    schedule = Schedule(Stage(shop), scenario, 1 + wrong.seed % 3, drawn_from(Random(wrong.seed)), keep_story=False)
    with suppress(InvariantViolated):
        schedule.play()
    log = EventLog(schedule.world.log.port, schedule.world.log.codec, shop)
    keys = sorted({key_text(record) for record in await everything(log, "order.requests")})
    sagas = list[SagaHistories]()
    for key in keys:
        with suppress(ContractError):  # nothing has handled its request yet
            sagas.append(await SagaHistories.read(log, key))
    return Written(await histories(log, wrong.decider), sagas)


def by_decider(wrong: WrongDecision, found: Written, right: OtherCode) -> Iterator[SmallTest]:
    """Yield the test that `eventlib shrink DECIDER KEY` writes of the first key that shows the mistake."""
    for history in found.histories:
        with suppress(ContractError):
            yield of_failure(history) if wrong.raises else of_difference(history, right)
            return


def by_saga(wrong: WrongDecision, found: Written, right: OtherCode) -> Iterator[SmallTest]:
    """Yield the test that `eventlib shrink KEY` writes of the first saga that shows the mistake."""
    for saga in found.sagas:
        with suppress(ContractError):
            yield saga.small_test(None if wrong.raises else right)
            return


def written(name: str, right: OtherCode, directory: Path) -> list[str]:
    """Write the tests of a mistake, which fail with it and pass without it; return what is wrong with that."""
    wrong, failed = WRONG[name], list[str]()
    with written_instead(wrong.file, wrong.before, wrong.after):
        found = asyncio.run(written_with(wrong))
        tests = [*by_decider(wrong, found, right), *by_saga(wrong, found, right)]
        failed = [run(each.text) for each in tests]
    reason = "Error: " if wrong.raises else "AssertionError: expected"
    told = [] if len(tests) == len((by_decider, by_saga)) else [f"{name}: {len(tests)} tests"]
    for number, (made, why) in enumerate(zip(tests, failed, strict=True)):
        (directory / f"test_{name.replace(' ', '_').replace(chr(39), '_')}_{number}.py").write_text(made.text)
        if len(made.small.events) > MOST_EVENTS or reason not in why or run(made.text):
            told.append(f"{name}: {len(made.small.events)} events, {why!r}, {run(made.text)!r}\n{made.text}")
    return told


@pytest.mark.parametrize("name", SAMPLE)
def test_a_mistake_becomes_a_small_test_against_it(name: str, right: OtherCode, tmp_path: Path) -> None:
    assert written(name, right, tmp_path) == []


@pytest.mark.extended
def test_every_mistake_becomes_a_small_test_that_a_project_takes_as_it_is(right: OtherCode, tmp_path: Path) -> None:
    (tmp_path / "services").symlink_to(ROOT / "services")
    (tests := tmp_path / "tests").mkdir()
    assert len(WRONG) >= 40
    assert [wrong for name in WRONG for wrong in written(name, right, tests)] == []
    assert len([*tests.glob("test_*.py")]) == 2 * len(WRONG)
    rules = ("--config", str(ROOT / "pyproject.toml"))
    for tool in (("ruff", "check", *rules), ("ruff", "format", "--check", *rules), ("mypy", "--strict")):
        command = [sys.executable, "-m", *tool, "tests"]
        done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
