"""Logs that commit b0c4a11 wrote: today's commands print of them what its own printed, and today's services go on."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventlib import RuntimeConfig, open_log
from services import shop
from services.simulation.ledger import Ledger
from services.simulation.systems import SimulatedCarrier, SimulatedGateway
from tests.commands import ended
from tests.golden.shops.shops import EMBEDDED, KAFKA, golden_log, holds, printed
from tests.handling import handle_all

pytestmark = pytest.mark.heavy


@pytest.fixture(params=[EMBEDDED, pytest.param(KAFKA, marks=pytest.mark.extended)])
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A log's name and its URL."""
    with golden_log(request.param, tmp_path) as url:
        yield request.param, url


LATER = [
    f"service {service} consumes topic {service}.callbacks now, and did not then: nothing is compared there"
    for service in ("dispatch", "payment")
]


UNSHOWN = "the event cannot be written as JSON"
"""Why bytes that are no text were not shown: now they are."""


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines() if line]


def place(record: dict[str, Any]) -> tuple[str, int, int]:
    return record["topic"], record["partition"], record["offset"]


def test_all_that_was_printed_of_a_log_is_printed_still(golden: tuple[str, str]) -> None:
    name, url = golden
    then = printed(name)
    tails = {command.removeprefix("tail --json "): text for command, text in then.items() if command.startswith("tail")}
    records = {place(each): each for each in lines(ended("tail", "--json", *tails, "--log", url).stdout)}
    for topic, text in tails.items():
        before = lines(text)
        assert [place(each) for each in before] == [at for at in records if at[0] == topic]
        for each in before:
            if str(each.get("error")).startswith(UNSHOWN):
                del each["error"], each["data"]
            assert holds(each, records[place(each)])
    for command, text in then.items():
        what, *arguments = command.replace("rerun --list", "rerun list").split()
        if what in {"saga", "state", "history", "parked", "replay", "rerun"}:
            done = ended(what, *arguments, "--log", url)
            before = lines(text.replace('"notes":[]', f'"notes":{json.dumps(LATER)}') if what == "replay" else text)
            if what == "replay":  # a handler is called what its function is called, and that is code
                for each in before:
                    del each["handlers"]
            assert holds(before, lines(done.stdout)), command


def test_a_topic_that_was_declared_since_stops_no_look_at_the_log(golden: tuple[str, str]) -> None:
    _, url = golden
    assert ".callbacks" not in ended("topics", "--json", "--log", url).stdout
    assert lines(ended("tail", "--json", "--log", url).stdout)
    assert ended("graph", "--log", url).stdout
    assert "in flight" in ended("prove", "in-flight", "--moments", "1", "--log", url).stdout
    (page,) = lines(ended("sagas", "list", "--limit", "1", "--json", "--log", url).stdout)
    assert page["sagas"]
    found = lines(
        ended(
            "sql",
            "SELECT (SELECT count(*) FROM sagas) > 0 AS old, (SELECT count(*) FROM event_charge_confirmed) AS new",
            "--json",
            "--log",
            url,
        ).stdout
    )
    assert found[0]["rows"] == [{"old": 1, "new": 0}]


async def test_services_go_on_with_what_was_under_way(golden: tuple[str, str], tmp_path: Path) -> None:
    _, url = golden
    with Ledger(tmp_path / "shop.db.outside.db") as ledger:
        ports = {"gateway": SimulatedGateway(ledger), "carrier": SimulatedCarrier(ledger)}
        async with open_log(url, shop) as log:
            await handle_all(log, ports=ports, config=RuntimeConfig())
    (report,) = lines(ended("replay", "--json", "--log", url).stdout)
    assert (report["differences"], report["unknown"], report["silent"]) == (0, [], [])
    (left,) = lines(ended("replay", "--in-flight", "--json", "--log", url).stdout)
    assert left["in_flight"] == 0
