"""`eventlib prove shrink` of a saga: its first wrong decision, whichever decider and mistake made it, becomes a small test."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from eventlib import EventLog, open_log
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
from tests.commands import ended, said
from tests.integration.reopening import everything
from tests.integration.repository import Repository
from tests.integration.shop_log import order, served, supplied
from tests.integration.test_shrink import histories, run
from tests.saga.planted import written_instead
from tests.saga.shop_runs import ROOT
from tests.saga.wrong_decisions import WRONG, WrongDecision

RAISES = "a release raises"
TWICE = "lines are shipped twice"
CENTS = "a charge of a cent more"


@contextmanager
def wrong_log(name: str, directory: Path) -> Iterator[str]:
    """Make the shop go wrong in one way, and yield a log of it, with an order that completes and one that is declined."""
    url = f"sqlite:///{directory / 'wrong.db'}"

    async def fill() -> None:
        async with open_log(url, shop) as opened:
            await supplied(opened)
            await opened.publish_many([order("completed", 2), order("declined")])
            await served(opened)

    wrong = WRONG[name]
    with written_instead(wrong.file, wrong.before, wrong.after):
        asyncio.run(fill())
        yield url


def test_the_input_of_a_saga_that_is_parked_is_found_by_its_key(tmp_path: Path) -> None:
    with wrong_log(RAISES, tmp_path) as url:
        small = said("prove", "shrink", "declined", "--log", url)
        whole = said("history", "declined", "--as-test", "--log", url)
        assert '"""What failed on a log: `eventlib prove shrink declined`."""' in small
        assert '"""What failed on a log: `eventlib history declined --as-test`."""' in whole
        assert "def test_shelf_on_line_release_requested()" in small
        assert len(whole) > len(small)
        assert "KeyError" in run(small)
        assert "KeyError" in run(whole)
    assert (run(small), run(whole)) == ("", "")


def test_the_first_saga_of_a_kind_that_goes_wrong(tmp_path: Path) -> None:
    with wrong_log(RAISES, tmp_path) as url:
        assert "`eventlib prove shrink declined`" in said(
            "prove", "shrink", "--where", "country = 'France'", "--log", url
        )
        none = ended("prove", "shrink", "--where", "country = 'France' and status = 'ended'", "--log", url)
    assert none.returncode == 1
    assert "nothing goes wrong in the 1 saga that are so: country = " in " ".join(none.stderr.split())


def test_a_saga_of_which_nothing_fails_is_written_as_it_was_decided(tmp_path: Path) -> None:
    with wrong_log(RAISES, tmp_path) as url:
        text = said("history", "completed", "--as-test", "--log", url)
        assert '"""What was decided on a log: `eventlib history completed --as-test`."""' in text
        assert run(text) == ""
        nothing = ended("prove", "shrink", "completed", "--log", url)
    assert nothing.returncode == 1
    assert "nothing of completed goes wrong here: give a revision that decides rightly" in " ".join(
        nothing.stderr.split()
    )


@pytest.mark.extended
def test_requests_that_break_an_invariant(tmp_path: Path) -> None:
    with wrong_log(TWICE, tmp_path) as url:
        text = said(
            "prove", "shrink", "completed", "--scenario", "services.simulation.scenario:ShopScenario", "--log", url
        )
        assert "def test_steps_happen_once() -> None:" in text
        assert text.count("OrderLine(") == 1, "of two lines, one breaks it"
        assert "AssertionError: steps_happen_once" in run(text)
    assert run(text) == ""


def test_the_first_decision_of_a_saga_that_a_revision_makes_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = Repository(tmp_path / "mine")
    with wrong_log(CENTS, tmp_path) as url:
        monkeypatch.chdir(repository.directory)
        right = ("--app", "services:shop", "--against", "recorded")
        for names in (("completed",), ("--where", "country = 'France'")):
            text = said("prove", "shrink", *names, *right, "--log", url)
            assert "def test_payment_on_stock_reserved()" in text
            assert "AssertionError: expected" in run(text)
    assert run(text) == ""


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            (
                "prove",
                "shrink",
            ),
            "give a saga's key, or a decider and its key, or --where",
        ),
        (("prove", "shrink", "a", "b", "c"), "give a saga's key, or a decider and its key, or --where"),
        (
            ("prove", "shrink", "a", "--where", "status = 'x'"),
            "give a saga's key, or a decider and its key, or --where",
        ),
        (("prove", "shrink", "a", "--event", "1"), "name the decider whose input it is: DECIDER KEY"),
        (("history", "a"), "name the decider, too: `eventlib saga KEY` shows the deciders of a saga"),
    ],
)
def test_what_has_to_be_named(arguments: tuple[str, ...], told: str) -> None:
    done = ended(*arguments)
    assert done.returncode == 2
    assert told in " ".join(done.stderr.replace("│", " ").split())


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
    """Yield the test that `eventlib prove shrink DECIDER KEY` writes of the first key that shows the mistake."""
    for history in found.histories:
        with suppress(ContractError):
            yield of_failure(history) if wrong.raises else of_difference(history, right)
            return


def by_saga(wrong: WrongDecision, found: Written, right: OtherCode) -> Iterator[SmallTest]:
    """Yield the test that `eventlib prove shrink KEY` writes of the first saga that shows the mistake."""
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
        if made.few > MOST_EVENTS or reason not in why or run(made.text):
            told.append(f"{name}: {made.few} events, {why!r}, {run(made.text)!r}\n{made.text}")
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
