"""`eventlib prove deploy`: one verdict about the contracts, the recorded past and what is in flight, before a deployment."""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any
from xml.etree import ElementTree as ET

import httpx
import pytest

from eventlib import open_log
from eventlib.admin.api import create_admin
from eventlib.log.open import open_port
from eventlib.operations.shared_notes import SharedNotes
from eventlib.queries.parked import parkings
from services import shop
from services.order.events import CancelSubmitted
from tests import forked
from tests.commands import ended
from tests.in_rows import change_row
from tests.integration.repository import SURCHARGE, Repository
from tests.integration.shop_log import fill_ended
from tests.integration.test_prove import FAILS
from tests.saga.shop_runs import ROOT

DECIDER = "services/order/decider.py"
ASKED = ("prove", "deploy", "--against", "recorded", "--scenario", "services.simulation.scenario:ShopScenario")
PREVIEW = "/deployment/preview"
TOKEN = "x" * 32
HURT = (
    "UPDATE records SET value = x'00' WHERE position = (SELECT max(position) FROM records WHERE type = 'JournalEntry')"
)
Preview = Callable[..., CompletedProcess[str]]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    made = Repository(tmp_path / "mine")
    monkeypatch.chdir(made.directory)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return made


@pytest.fixture
def log(tmp_path: Path) -> str:
    """Return the URL of a log with orders that have ended, of which a customer wants to cancel one: nothing has read that yet."""
    url = f"sqlite:///{tmp_path / 'deployed.db'}"

    async def fill() -> None:
        async with open_log(url, shop) as opened:
            await fill_ended(opened)
            await opened.publish(CancelSubmitted(order_id="completed"))

    asyncio.run(fill())
    return url


@pytest.fixture
def preview(log: str, repository: Repository) -> Preview:
    """Run the command in the repository."""
    assert Path.cwd() == repository.directory
    scenario = ("--scenario", "services.simulation.scenario:ShopScenario")
    return lambda *options: ended("prove", "deploy", *scenario, "--workers", "1", *options, "--log", log)


def test_nothing_speaks_against_the_code_that_has_recorded_it(preview: Preview, log: str) -> None:
    done = preview("--code", "recorded", "--keep")
    assert done.returncode == 0, done.stderr
    (kept,) = asyncio.run(kept_reports(log))
    assert (kept["holds"], kept["differences"], kept["in_flight"], kept["head"]) == (True, 0, 1, "recorded")
    assert (len(str(kept["code_version"])), len(str(kept["revision"]))) == (12, 40)
    headline, _, past, _, ahead, *_ = done.stdout.splitlines()
    assert headline == "Nothing speaks against deploying recorded."
    assert past.startswith("Nothing differs from what was recorded, in ")
    assert ahead == "1 in flight, 1 shape, all end lawfully within 2 steps."


async def kept_reports(url: str) -> list[dict[str, Any]]:
    port = await open_port(url)
    try:
        return [note.value for note in (await SharedNotes(port).all("report")).values()]
    finally:
        await port.close()


def test_what_it_says_of_what_is_in_flight_is_what_then_happens(
    repository: Repository, preview: Preview, log: str
) -> None:
    repository.change(FAILS, file=DECIDER)
    done = preview("--json")
    found = json.loads(done.stdout)
    assert done.returncode == 1
    assert (found["holds"], found["objections"]) == (False, ["1 in flight not lawful"])
    assert (found["contracts"], found["past"]["groups"]) == ([], [])
    (unlawful,) = found["in_flight"]["unlawful"]
    assert "parks it: KeyError" in unlawful["why"]
    deploy(repository, log)

    async def look() -> None:
        async with open_log(log, shop) as opened:
            (parked,) = await parkings(opened)
            assert parked.key == unlawful["key"]
            assert parked.reason in unlawful["why"]

    asyncio.run(look())


def deploy(repository: Repository, log: str) -> None:
    """Let the services of a repository handle what is there."""
    script = (
        "import asyncio, sys; from eventlib import open_log; from services import shop\n"
        "from tests.integration.shop_log import served\n"
        "async def main():\n"
        "    async with open_log(sys.argv[1], shop) as log: await served(log)\n"
        "asyncio.run(main())"
    )
    command = [sys.executable, "-c", script, log]
    done = forked.run(
        command,
        cwd=repository.directory,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr


def test_what_is_decided_otherwise_has_to_be_declared(repository: Repository, preview: Preview, log: str) -> None:
    repository.change(SURCHARGE)
    repository.commit("surcharge")
    asked = ("--against", "recorded", "--code", "surcharge")
    done = preview(*asked)
    assert done.returncode == 1
    headline, *rest = done.stdout.splitlines()
    assert headline == "Do not deploy surcharge: 1 kind of difference not declared."
    assert any("services/payment/decider.py:" in line for line in rest)
    assert ended("prove", "diff", "recorded", "--accept", "postage", "--log", log).returncode == 0
    assert preview(*asked).stdout.splitlines()[0] == "Nothing speaks against deploying surcharge."


def test_a_contract_that_breaks_is_an_objection_in_each_form(repository: Repository, preview: Preview) -> None:
    without = "    charge_key: GatewayKey\n    reason: Reason\n\n\nclass PaymentTaken"
    repository.change(
        (without, without.replace("\n\n\n", "\n    bank: Reason\n\n\n")), file="services/payment/events.py"
    )
    text = preview()
    assert text.stdout.splitlines()[0] == "Do not deploy the working tree: 1 problem with contracts."
    markdown = preview("--format", "markdown").stdout
    assert markdown.startswith("# Do not deploy the working tree: 1 problem with contracts.\n\n## Contracts\n\n- ")
    assert "\n## No difference: " in markdown
    assert "\n## In flight: Proved\n" in markdown
    suites = ET.fromstring(preview("--format", "junit").stdout)  # noqa: S314  our own
    assert [each.get("name") for each in suites] == ["eventlib schemas check", "eventlib diff", "eventlib prove"]
    assert (suites.get("tests"), suites.get("failures"), suites.get("errors")) == ("3", "1", "0")


def test_what_depends_on_damage_is_not_known(preview: Preview, log: str) -> None:
    change_row(Path(log.removeprefix("sqlite:///")), HURT)
    text = preview("--code", "recorded")
    assert text.stdout, text.stderr
    assert text.returncode == 1
    headline = "Do not deploy recorded: 1 damaged place on the log, and what depends on that is not known."
    assert " ".join(text.stdout.split()).startswith(headline)
    suites = ET.fromstring(preview("--code", "recorded", "--format", "junit").stdout)  # noqa: S314  our own
    assert suites.get("failures") == "1"
    (damage,) = suites.findall("testsuite[@name='eventlib doctor']/testcase")
    assert "is damaged" in str(damage.get("name"))


@pytest.mark.usefixtures("repository")
def test_a_revision_that_is_not_there(log: str) -> None:
    done = ended("prove", "deploy", "--code", "nothing", "--log", log)
    assert done.returncode != 0
    assert "there is no revision 'nothing'" in " ".join(done.stderr.split())


async def test_operators_preview_a_deployment_over_http(repository: Repository, log: str, tmp_path: Path) -> None:
    settings = repository.directory / "pyproject.toml"
    settings.write_text(f'{settings.read_text()}simulation = "services.simulation.scenario:ShopScenario"\n')
    repository.change(FAILS, file=DECIDER)
    repository.commit("fails")
    async with open_log(log, shop, read_only=True) as opened:
        app = create_admin(opened, TOKEN, state_dir=str(tmp_path))
        headers = {"Authorization": f"Bearer {TOKEN}"}
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://a", headers=headers)
        async with app.router.lifespan_context(app), client, asyncio.timeout(120):
            assert (await client.get(PREVIEW)).status_code == 404
            begun = await client.post(PREVIEW, json={"code": "fails", "against": "recorded"})
            assert (begun.status_code, begun.json()["status"]) == (202, "running"), begun.text
            assert (await client.post(PREVIEW, json={})).status_code == 422, "one at a time"
            found = await over(client)
            assert found["preview"] == json.loads(ended(*ASKED, "--code", "fails", "--json", "--log", log).stdout)
            assert found["preview"]["objections"] == ["1 in flight not lawful"]
            await client.post(PREVIEW, json={"code": "nothing"})
            assert "there is no revision 'nothing'" in (await over(client))["error"]
            assert (await client.post(PREVIEW, json={"code": "--in-flight"})).status_code == 422
            await client.post(PREVIEW, json={})  # the server ends while it is made


async def over(client: httpx.AsyncClient) -> dict[str, Any]:
    """Wait until a preview is done."""
    while (found := (await client.get(PREVIEW)).json())["status"] == "running":
        await asyncio.sleep(0.05)
    return dict(found)
