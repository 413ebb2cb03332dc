"""The command line of reruns and resets: what is shown before somebody agrees, what is done, and what is kept of it."""

import asyncio
import json
import random
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from eventlib import open_log
from eventlib.cli import run
from tests import forked
from tests.apps.market import Code, GivenBack, market
from tests.integration.reopening import events
from tests.integration.rerunning import send, settle, shelves_of, some_short_baskets

right = market()
wrong = market(Code(gives_back=False))
"""`--app tests.integration.test_cli_rerun:right`, or `wrong`."""

Typed = Callable[..., str]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/log.db"


@pytest.fixture
def typed(url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Typed:
    """Type a command with the mended code, and return what it prints."""
    asyncio.run(wrong_day(url))
    monkeypatch.setenv("EVENTLIB_LOG", url)
    monkeypatch.setenv("COLUMNS", "110")

    def type_(*arguments: str, code: int = 0) -> str:
        assert run([*arguments, "--app", "tests.integration.test_cli_rerun:right"]) == code
        out, err = capsys.readouterr()
        return out + err

    return type_


async def wrong_day(url: str) -> None:
    async with open_log(url, wrong) as log:
        await some_short_baskets(log)


async def shelves(url: str) -> tuple[int, dict[str, int]]:
    """Return how many units were given back, as facts, and what is on the shelves."""
    async with open_log(url, right, read_only=True) as log:
        back = [each for each in await events(log, "stock") if isinstance(each, GivenBack)]
        return len(back), await shelves_of(log, "store")


def test_a_rerun_from_the_difference_to_the_switch(typed: Typed, url: str) -> None:
    printed = typed("rerun", "begin", "store", "again", "--limit", "1")
    (counts,) = [line.split() for line in printed.splitlines() if line.startswith("basket")]
    assert counts == ["basket", "6", "0", "24", "0", "12", "0"]
    assert re.search(r"^\+ basket s\d  GivenBack  ", printed, re.MULTILINE)
    assert "Make it the service's: eventlib rerun switch store again --reason TEXT" in printed
    (listed,) = json.loads(f"[{typed('rerun', 'list', '--json')}]")
    assert (listed["name"], listed["status"], listed["switched"]) == ("again", "beside its service", 0)
    assert "there is no terminal to confirm this on" in typed(
        "rerun", "switch", "store", "again", "--reason", "forgotten", code=1
    )
    assert asyncio.run(shelves(url)) == (0, {"A": 3, "B": 3, "C": 0}), "nothing was done without a yes"
    printed = typed("rerun", "switch", "store", "again", "--reason", "forgotten", "--yes")
    assert "Events that only again emits, store emits then." in printed
    assert "12 events emitted now, 0 events could not be taken back." in printed
    assert asyncio.run(shelves(url)) == (12, {"A": 9, "B": 9, "C": 0})
    assert "a rerun was taken over" in typed("history", "basket", "s1")
    assert "its service's states" in typed("rerun", "list")
    assert "store has taken over the states of again" in typed("rerun", "begin", "store", "again")
    assert "so it stays" in typed("rerun", "drop", "store", "again", code=1)


def test_killed_again_and_again_it_comes_to_the_same_end(typed: Typed, url: str) -> None:
    rng = random.Random(5)
    again = ["rerun", "begin", "store", "again"]
    switching = ["rerun", "switch", "store", "again", "--reason", "forgotten", "--yes"]
    kill_at_some_moment(url, again, rng.uniform(0, 0.2))
    typed(*again)
    for _ in range(2):
        kill_at_some_moment(url, switching, rng.uniform(0, 0.02))
    typed(*switching)
    (listed,) = json.loads(f"[{typed('rerun', 'list', '--json')}]")
    assert listed["switched"] == listed["tasks"] == 8
    assert asyncio.run(shelves(url)) == (12, {"A": 9, "B": 9, "C": 0}), "each was said once"


def kill_at_some_moment(url: str, arguments: list[str], after_s: float) -> None:
    """Kill a command some time after it has begun to write."""
    main = [sys.executable, "-c", "from eventlib.cli import main; main()"]
    app = ["--app", "tests.integration.test_cli_rerun:right", "--log", url]
    with forked.Popen([*main, *arguments, *app], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        records = count(url)
        while process.poll() is None and count(url) == records:
            time.sleep(0.001)
        time.sleep(after_s)
        process.kill()


def count(url: str) -> int:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
        found = file.execute("SELECT count(*) FROM records").fetchone()
        return int(found[0])


def test_what_is_thrown_away_changes_nothing(typed: Typed, url: str) -> None:
    typed("rerun", "begin", "store", "again")
    (kind,) = {
        row["kind"] for row in map(json.loads, typed("topics", "--json").splitlines()) if "again." in row["topic"]
    }
    assert kind == "of again, a rerun of store"
    before = count(url)
    (told,) = map(json.loads, typed("rerun", "drop", "store", "again", "--dry-run", "--json").splitlines())
    assert told["dropped"] is False
    assert count(url) == before
    assert "Nothing was deleted." in typed("rerun", "drop", "store", "again", "--dry-run")
    refused = typed("rerun", "drop", "store", "again", "--as-previewed", "0123456789ab", code=1)
    assert "nothing was done" in refused
    token = told["as_previewed"]
    assert "again is deleted" in typed("rerun", "drop", "store", "again", "--as-previewed", token)
    assert count(url) == before - sum(told["topics"].values())
    assert "There is no rerun on this log." in typed("rerun", "list")
    assert "again." not in typed("topics")
    assert asyncio.run(shelves(url)) == (0, {"A": 3, "B": 3, "C": 0})


def test_a_switch_is_what_its_dry_run_was_and_refused_when_the_log_has_moved_on(typed: Typed, url: str) -> None:
    typed("rerun", "begin", "store", "again")
    records = count(url)
    shown = json.loads(typed("rerun", "switch", "store", "again", "--dry-run", "--json"))
    assert (count(url), shown["done"], shown["said"]) == (records, False, 12)
    switch = ["rerun", "switch", "store", "again", "--reason", "forgotten", "--yes", "--json"]
    asyncio.run(another_wrong_basket(url))
    token = shown["as_previewed"]
    assert "the log has moved on" in typed(*switch, "--as-previewed", token, code=1)
    shown = json.loads(typed("rerun", "switch", "store", "again", "--dry-run", "--json"))
    done = json.loads(typed(*switch, "--as-previewed", shown.pop("as_previewed")))
    assert done | {"done": False, "why": ""} == shown
    assert asyncio.run(shelves(url))[0] == shown["said"] == 13


def test_a_reset_backwards_does_again_what_came_after(typed: Typed, url: str) -> None:
    moment = datetime.now(UTC).isoformat()
    asyncio.run(another_wrong_basket(url))
    shown = typed("reset", "store", "--to", moment, "--dry-run")
    assert "keys in 8 tasks, and emit 1 event; 0 events could not be taken back." in shown
    assert "There is no rerun on this log." in typed("rerun", "list"), "nothing is left of the look"
    assert asyncio.run(shelves(url)) == (0, {"A": 3, "B": 2, "C": 0})
    done = json.loads(typed("reset", "store", "--to", moment, "--reason", "forgotten", "--yes", "--json"))
    assert (done["said"], done["rerun"]) == (1, "store-reset-1")
    assert asyncio.run(shelves(url)) == (1, {"A": 3, "B": 3, "C": 0}), "what was decided before stays so"
    done = json.loads(typed("reset", "store", "--to", "earliest", "--reason", "all of it", "--yes", "--json"))
    assert done["said"] == 12
    assert asyncio.run(shelves(url)) == (13, {"A": 9, "B": 9, "C": 0})


async def another_wrong_basket(url: str) -> None:
    async with open_log(url, wrong) as log:
        await send(log, [("late", "BC")])
        await settle(log)


def test_in_one_topic_alone_nothing_goes_back(typed: Typed) -> None:
    assert "cannot go back in one of them alone" in typed(
        "reset", "store", "--to", "earliest", "--topic", "answers", "--reason", "x", "--yes", code=1
    )
