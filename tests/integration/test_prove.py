"""`eventlib prove` on a log: what it prints, as JSON too, and its exit code."""

import asyncio
import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from eventlib import open_log
from services import shop
from services.order.events import CancelSubmitted
from tests.commands import ended
from tests.integration.repository import Repository
from tests.integration.shop_log import order, served, supplied

FAILS = (
    "return [CancelRefused(order_id=wish.order_id, reason=order.status)]",
    "raise KeyError(order.status)",
)
CHEAP = ("in-flight", "--moments", "300", "--workers", "1")


def test_what_is_not_explored_is_not_said_to_end(filled: str) -> None:
    done = ended("prove", *CHEAP, "--log", filled)
    assert done.returncode == 1
    headline, *rest = done.stdout.splitlines()
    assert headline == "2 in flight, 2 shapes: 2 not explored to the end."
    assert "? broken: not explored to the end: more than 300 moments: allow more with --moments" in rest
    assert any(
        line.startswith("? garbled: not explored to the end: an event of its past cannot be read") for line in rest
    )
    assert "end lawfully" not in done.stdout


def test_the_same_as_json(filled: str) -> None:
    done = ended("prove", *CHEAP, "--json", "--log", filled)
    found = json.loads(done.stdout)
    assert done.returncode == 1
    assert (found["holds"], found["in_flight"], found["shapes"], found["unlawful"]) == (False, 2, 2, [])
    assert {each["key"] for each in found["unexplored"]} == {"broken", "garbled"}
    assert any("units_are_conserved" in line for line in found["left_out"])


@pytest.fixture
def late(tmp_path: Path) -> str:
    """Return the URL of a log on which a customer wants to cancel an order that has ended, which no service has read yet."""
    url = f"sqlite:///{tmp_path / 'late.db'}"

    async def fill() -> None:
        async with open_log(url, shop) as log:
            await supplied(log)
            await log.publish(order("large", 3).event)
            await served(log)
        done = ended("prove", *CHEAP, "--log", url)
        assert (done.returncode, done.stdout) == (0, "Nothing is in flight.\n")
        async with open_log(url, shop) as log:
            await log.publish(CancelSubmitted(order_id="large"))

    asyncio.run(fill())
    return url


def test_a_wish_to_cancel_that_comes_late_ends_lawfully(late: str) -> None:
    done = ended("prove", *CHEAP, "--log", late)
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[0] == "1 in flight, 1 shape, all end lawfully within 2 steps."


def test_it_is_proved_under_the_code_of_a_revision(late: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = Repository(tmp_path / "mine")
    repository.change(FAILS, file="services/order/decider.py")
    repository.commit("fails")
    repository.git("checkout", "--quiet", "recorded")  # the working tree has nothing to do with it
    monkeypatch.chdir(repository.directory)
    asked = ("prove", *CHEAP, "--scenario", "services.simulation.scenario:ShopScenario", "--log", late, "--code")

    lawful = ended(*asked, "recorded")
    assert lawful.returncode == 0, lawful.stderr
    assert lawful.stdout.splitlines()[0] == "1 in flight, 1 shape, all end lawfully within 2 steps."

    wrong = ended(*asked, "fails", "--format", "junit")
    assert wrong.returncode == 1, wrong.stderr
    (suite,) = ET.fromstring(wrong.stdout)  # noqa: S314  our own
    assert (suite.get("failures"), suite.get("errors")) == ("1", "0")
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert "KeyError" in failure.get("message", "")
    assert failure.text is not None
    assert failure.text.endswith("takes CancelSubmitted large")

    none = ended(*asked, "nothing")
    assert none.returncode == 1
    assert "there is no revision 'nothing'" in none.stderr


def test_what_is_not_explored_is_an_error_for_ci(filled: str) -> None:
    junit = ended("prove", *CHEAP, "--log", filled, "--format", "junit")
    (suite,) = ET.fromstring(junit.stdout)  # noqa: S314  our own
    assert (junit.returncode, suite.get("failures"), suite.get("errors")) == (1, "0", "2")
    markdown = ended("prove", *CHEAP, "--log", filled, "--format", "markdown")
    assert markdown.returncode == 1
    assert markdown.stdout.startswith("## In flight: Not proved\n\n2 in flight, 2 shapes: 2 not explored")
    assert "\n- ? broken: not explored to the end: more than 300 moments" in markdown.stdout


def test_a_log_that_is_not_there(tmp_path: Path) -> None:
    done = ended("prove", *CHEAP, "--log", f"sqlite:///{tmp_path / 'none.db'}")
    assert done.returncode == 1
    assert "there is no log at" in done.stderr
