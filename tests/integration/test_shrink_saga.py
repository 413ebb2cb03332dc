"""`eventlib shrink KEY`, `shrink --where` and `history KEY --as-test`: a saga's first wrong decision, whichever decider made it."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from eventlib import open_log
from services import shop
from tests.commands import ended, said
from tests.integration.repository import Repository
from tests.integration.shop_log import order, served, supplied
from tests.integration.test_shrink import run
from tests.saga.planted import written_instead
from tests.saga.wrong_decisions import WRONG

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
        small = said("shrink", "declined", "--log", url)
        whole = said("history", "declined", "--as-test", "--log", url)
        assert '"""What failed on a log: `eventlib shrink declined`."""' in small
        assert '"""What failed on a log: `eventlib history declined --as-test`."""' in whole
        assert "def test_shelf_on_line_release_requested()" in small
        assert len(whole) > len(small)
        assert "KeyError" in run(small)
        assert "KeyError" in run(whole)
    assert (run(small), run(whole)) == ("", "")


def test_the_first_saga_of_a_kind_that_goes_wrong(tmp_path: Path) -> None:
    with wrong_log(RAISES, tmp_path) as url:
        assert "`eventlib shrink declined`" in said("shrink", "--where", "country = 'France'", "--log", url)
        none = ended("shrink", "--where", "country = 'France' and status = 'ended'", "--log", url)
    assert none.returncode == 1
    assert "nothing goes wrong in the 1 saga that are so: country = " in " ".join(none.stderr.split())


def test_a_saga_of_which_nothing_fails_is_written_as_it_was_decided(tmp_path: Path) -> None:
    with wrong_log(RAISES, tmp_path) as url:
        text = said("history", "completed", "--as-test", "--log", url)
        assert '"""What was decided on a log: `eventlib history completed --as-test`."""' in text
        assert run(text) == ""
        nothing = ended("shrink", "completed", "--log", url)
    assert nothing.returncode == 1
    assert "nothing of completed goes wrong here: give a revision that decides rightly" in " ".join(
        nothing.stderr.split()
    )


def test_requests_that_break_an_invariant(tmp_path: Path) -> None:
    with wrong_log(TWICE, tmp_path) as url:
        text = said("shrink", "completed", "--scenario", "services.simulation.scenario:ShopScenario", "--log", url)
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
            text = said("shrink", *names, *right, "--log", url)
            assert "def test_payment_on_stock_reserved()" in text
            assert "AssertionError: expected" in run(text)
    assert run(text) == ""


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("shrink",), "give a saga's key, or a decider and its key, or --where"),
        (("shrink", "a", "b", "c"), "give a saga's key, or a decider and its key, or --where"),
        (("shrink", "a", "--where", "status = 'x'"), "give a saga's key, or a decider and its key, or --where"),
        (("shrink", "a", "--event", "1"), "name the decider whose input it is: DECIDER KEY"),
        (("history", "a"), "name the decider, too: `eventlib saga KEY` shows the deciders of a saga"),
    ],
)
def test_what_has_to_be_named(arguments: tuple[str, ...], told: str) -> None:
    done = ended(*arguments)
    assert done.returncode == 2
    assert told in " ".join(done.stderr.replace("│", " ").split())
