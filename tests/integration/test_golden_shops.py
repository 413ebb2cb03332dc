"""Logs that commit b0c4a11 wrote: today's commands print of them what its own printed, and today's services go on."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventlib import Runtime, RuntimeConfig, open_log
from services import shop
from services.simulation.carrier import SimulatedCarrier
from services.simulation.gateway import SimulatedGateway
from services.simulation.ledger import Ledger
from tests.commands import ended
from tests.golden.shops.shops import EMBEDDED, KAFKA, golden_log, holds, printed

pytestmark = pytest.mark.heavy


@pytest.fixture(params=[EMBEDDED, pytest.param(KAFKA, marks=pytest.mark.extended)])
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A log's name and its URL."""
    with golden_log(request.param, tmp_path) as url:
        yield request.param, url


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
            assert holds(each, records[place(each)])
    for command, text in then.items():
        what, *arguments = command.split()
        if what in {"saga", "state", "history", "parked", "replay", "rerun"}:
            done = ended(what, *arguments, "--log", url)
            before = lines(text)
            if what == "replay":  # a handler is called what its function is called, and that is code
                for each in before:
                    del each["handlers"]
            assert holds(before, lines(done.stdout)), command


async def test_services_go_on_with_what_was_under_way(golden: tuple[str, str], tmp_path: Path) -> None:
    _, url = golden
    with Ledger(tmp_path / "shop.db.outside.db") as ledger:
        ports = {"gateway": SimulatedGateway(ledger), "carrier": SimulatedCarrier(ledger)}
        async with open_log(url, shop) as log, Runtime(log, ports=ports, config=RuntimeConfig()) as runtime:
            await runtime.idle()
    (report,) = lines(ended("replay", "--json", "--log", url).stdout)
    assert (report["differences"], report["unknown"], report["silent"]) == (0, [], [])
    (left,) = lines(ended("replay", "--in-flight", "--json", "--log", url).stdout)
    assert left["in_flight"] == 0
