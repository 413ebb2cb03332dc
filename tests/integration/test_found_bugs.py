"""The three bugs that the simulator once found: which tool finds which, on logs that have had victims already."""

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from subprocess import CompletedProcess
from typing import NamedTuple

import pytest

from eventlib.log.base import Log
from eventlib.log.open import open_port
from eventlib.simulation.scenario import drawn_from
from eventlib.simulation.schedule import InvariantViolated, Schedule
from eventlib.simulation.stage import Stage
from services import shop
from services.order.events import CancelSubmitted
from services.simulation.scenario import ShopScenario
from tests import forked
from tests.commands import NO_PLUGINS, ended
from tests.integration.repository import Repository
from tests.saga.mutants_of_services import OPEN, SERVICES, UNANSWERED
from tests.saga.running import running_shop


class FoundBug(NamedTuple):
    """A bug of the services' sources, and what it has to break: a key in flight, by which it is found."""

    file: str
    changes: tuple[tuple[str, str], ...]
    in_flight: str


_BOOKING = """    match await carrier.book(meta.id, request.order_id, request.country):
        case Booked(tracking=tracking):
            return OrderDispatched(order_id=request.order_id, tracking=tracking)
        case Planned():
            return BookingAccepted(order_id=request.order_id)
        case Undeliverable(reason=reason):
            return DispatchFailed(order_id=request.order_id, reason=reason)
"""
_BOOKING_AND_RECALLING = """    booked: Booked | Planned | Undeliverable | Recalled
    try:
        booked = await carrier.book(meta.id, request.order_id, request.country)
    except OutcomeUnknown:
        booked = await carrier.recall(meta.id)
    match booked:
        case Booked(tracking=tracking):
            return OrderDispatched(order_id=request.order_id, tracking=tracking)
        case Planned():
            return BookingAccepted(order_id=request.order_id)
        case Undeliverable(reason=reason):
            return DispatchFailed(order_id=request.order_id, reason=reason)
        case Recalled():
            return DispatchFailed(order_id=request.order_id, reason=CARRIER_SILENT)
"""

FOUND = {
    "two questions in one effect": FoundBug(
        "services/dispatch/effects.py",
        ((_BOOKING, _BOOKING_AND_RECALLING), ("FOREVER, Meta, Retry\n", "FOREVER, Meta, OutcomeUnknown, Retry\n")),
        "booking",
    ),
    "an order ends before dispatch has answered": FoundBug(UNANSWERED[0], UNANSWERED[1:], "charging"),
    "a cancellation opens what was forgotten": FoundBug(OPEN[0], OPEN[1:], "charging"),
}


def write_victims(name: str, path: Path) -> str:
    """Play the schedule by which the simulator finds a bug, and write its log; return what its victim has broken."""
    mutant = SERVICES[name]
    with pytest.MonkeyPatch.context() as patch:
        mutant.plant(patch)
        schedule = Schedule(
            Stage(shop), ShopScenario(), 1 + mutant.seed % 3, drawn_from(Random(mutant.seed)), keep_story=False
        )
        with pytest.raises(InvariantViolated) as broken:
            schedule.play()
    asyncio.run(_copied(schedule.world.log.port, path))
    return broken.value.violation.invariant.name


async def _copied(port: Log, path: Path) -> None:
    log = await open_port(f"sqlite:///{path}")
    topics = [*(await port.topics()).values()]
    await log.create_topics(topics)
    for topic in topics:
        for partition in range(topic.partitions):
            records = await port.read(topic.name, partition, 0, 1_000_000)
            assert [record.offset for record in records] == [*range(len(records))]
            await log.append(records)
    await log.close()


async def put_in_flight(url: str, directory: Path, kind: str) -> None:
    """Let the services go on with a log, and end while an order is in flight: its booking or its charge is not answered.

    The customer of the second one wants to cancel it.
    """
    async with running_shop(url, directory) as running:
        script, call = (running.to_carrier, "book") if kind == "booking" else (running.to_gateway, "charge")
        script.held = asyncio.Event()
        async with running.services():
            await running.submit(kind)
            await running.until_true(lambda: script.calls[call] > 0)
        if kind == "charging":
            await running.log.publish(CancelSubmitted(order_id=kind))


EFFECT, EARLY, FORGOTTEN = FOUND
VICTIM = "O1"


class Incident(NamedTuple):
    """A repository whose commit `wrong` has brought a bug, and a log with a victim of it."""

    repository: Repository
    url: str
    bug: str

    def run(self, *arguments: str) -> CompletedProcess[str]:
        return ended(*arguments, "--log", self.url)


@pytest.fixture
def incident(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Incident:
    (tmp_path / "shop").mkdir()
    monkeypatch.chdir(tmp_path / "shop")
    repository, bug = Repository(tmp_path / "shop"), FOUND[request.param]
    settings = repository.directory / "pyproject.toml"
    settings.write_text(f'{settings.read_text()}simulation = "services.simulation.scenario:ShopScenario"\n')
    repository.commit("good")
    repository.change(*bug.changes, file=bug.file)
    repository.commit("wrong")
    write_victims(request.param, tmp_path / "log.db")
    return Incident(repository, f"sqlite:///{tmp_path / 'log.db'}", request.param)


def only(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("incident", names, indirect=True)


@only(EARLY)
@pytest.mark.extended
def test_what_was_decided_wrongly_is_found_by_its_difference(incident: Incident) -> None:
    (group,) = json.loads(incident.run("prove", "diff", "good..wrong", "--format", "json").stdout)["groups"]
    assert (group["handler"], group["delta"], group["sagas"]) == ("order/order.close", ["+OrderCancelled"], [VICTIM])
    found = json.loads(incident.run("prove", "bisect", "--from", "good", "--json").stdout)
    assert (found["commit"]["subject"], found["touched"]) == ("wrong", [VICTIM])
    assert found["mend"] == ["eventlib rerun begin order order-again"]
    of_its_kind = incident.run("prove", "bisect", "--from", "good", "--where", "reason = 'declined'", "--json")
    assert json.loads(of_its_kind.stdout)["commit"]["subject"] == "wrong"
    others = incident.run("prove", "bisect", "--from", "good", "--where", "reason = 'overdue'")
    assert "HEAD decides as good does" in others.stderr
    none = incident.run("prove", "bisect", "--from", "good", "--where", "country = 'Atlantis'")
    assert "no saga on the log is so: country = 'Atlantis'" in none.stderr


@only(EFFECT, FORGOTTEN)
def test_what_no_decision_shows_has_no_difference_and_an_effect_is_named(incident: Incident) -> None:
    done = incident.run("prove", "diff", "good..wrong")
    assert done.returncode == 0
    assert "Nothing differs from good" in done.stdout
    told = "effects have other code, and their answers are taken from the log: dispatch/shipment for DispatchRequested"
    assert (told in done.stdout) == (incident.bug == EFFECT)
    bisected = incident.run("prove", "bisect", "--from", "good")
    assert bisected.returncode == 1
    assert "HEAD decides as good does" in bisected.stderr


@pytest.mark.parametrize(
    ("incident", "decider", "told"),
    [
        (EARLY, "order", ["StockReleased(", "decided.then()"]),
        (FORGOTTEN, "reservation", ["given(reservations)", "decided.then_state(closed_at=datetime("]),
    ],
    indirect=["incident"],
)
@pytest.mark.extended
def test_a_victim_becomes_a_test_that_fails_until_the_bug_is_mended(
    incident: Incident, decider: str, told: Sequence[str]
) -> None:
    done = in_its_directory(
        incident, "prove", "shrink", decider, VICTIM, "--against", "good", "--out", "test_victim.py"
    )
    assert done.returncode == 0, done.stderr
    text = (incident.repository.directory / "test_victim.py").read_text()
    assert all(part in text for part in told), text
    assert checked(incident) == 1
    incident.repository.git("checkout", "--quiet", "good", "--", "services")
    assert checked(incident) == 0
    done = in_its_directory(incident, "prove", "shrink", decider, VICTIM, "--against", "good")
    assert f"today's code decides every input of {decider} {VICTIM} as good does" in done.stderr


@only(EFFECT)
def test_a_decision_that_is_right_becomes_no_test(incident: Incident) -> None:
    done = in_its_directory(incident, "prove", "shrink", "shipment", VICTIM, "--against", "good")
    assert (done.returncode, "`eventlib prove in-flight` explores what effects do" in done.stderr) == (1, True)


@pytest.mark.extended
@pytest.mark.parametrize(
    ("incident", "invariant", "last"),
    [
        (EFFECT, "the_carrier_agrees", "recall at carrier arrives late"),
        (EARLY, "charges_follow_stock", "payment charging is forgotten; payment/2 takes DispatchCancelled charging"),
        (FORGOTTEN, "reservations_are_forgotten", "reservation charging is forgotten; stock/2 takes"),
    ],
    indirect=["incident"],
)
def test_what_is_in_flight_is_found_before_it_is_a_victim(
    incident: Incident, tmp_path: Path, invariant: str, last: str
) -> None:
    asyncio.run(put_in_flight(incident.url, tmp_path, FOUND[incident.bug].in_flight))
    done = incident.run("prove", "in-flight", "--code", "wrong", "--json", "--workers", "1")
    (wrong,) = json.loads(done.stdout)["unlawful"]
    assert (done.returncode, wrong["law"]) == (1, invariant)
    assert wrong["story"][-1].startswith(last), "\n".join(wrong["story"])


def in_its_directory(incident: Incident, *arguments: str) -> CompletedProcess[str]:
    """Run a command in a process that imports the code of the repository."""
    command = [sys.executable, "-m", "eventlib", *arguments, "--log", incident.url]
    return forked.run(command, cwd=incident.repository.directory, capture_output=True)


def checked(incident: Incident) -> int:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *NO_PLUGINS.split(), "test_victim.py"]
    done = forked.run(command, cwd=incident.repository.directory, capture_output=True)
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    return done.returncode
