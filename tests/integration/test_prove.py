"""`eventlib prove` on a log: what it prints, as JSON too, and its exit code."""

import asyncio
import json
from pathlib import Path

from eventlib import open_log
from services import shop
from services.order.events import CancelSubmitted
from tests.commands import ended
from tests.integration.shop_log import order, served, supplied

CHEAP = ("--in-flight", "--moments", "300", "--workers", "1")


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


def test_a_wish_to_cancel_that_comes_late_ends_lawfully(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shop.db'}"

    async def fill(*, wishes: bool) -> None:
        async with open_log(url, shop) as log:
            if wishes:
                await log.publish(CancelSubmitted(order_id="large"))
                return
            await supplied(log)
            await log.publish(order("large", 3).event)
            await served(log)

    asyncio.run(fill(wishes=False))
    done = ended("prove", *CHEAP, "--log", url)
    assert (done.returncode, done.stdout) == (0, "Nothing is in flight.\n")
    asyncio.run(fill(wishes=True))
    done = ended("prove", *CHEAP, "--log", url)
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[0] == "1 in flight, 1 shape, all end lawfully within 2 steps."


def test_what_is_to_be_proved_has_to_be_said(filled: str) -> None:
    done = ended("prove", "--log", filled)
    assert done.returncode == 2
    assert "say what is to be proved: --in-flight" in done.stderr


def test_a_log_that_is_not_there(tmp_path: Path) -> None:
    done = ended("prove", *CHEAP, "--log", f"sqlite:///{tmp_path / 'none.db'}")
    assert done.returncode == 1
    assert "there is no log at" in done.stderr
