"""The pages of deployments: which code ran since when, what is otherwise since one of them, and what its preview has found."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import pytest_asyncio

from eventlib import EventLog, Runtime, open_log
from eventlib.operations import deployments, parkings
from eventlib.operations.deployment_reports import keep_report, report_of
from eventlib.operations.shared_notes import SharedNotes
from eventlib.runtime import runtime as runtimes
from tests.console.windows import Window, opened
from tests.integration.parcels_app import APP, ParcelSubmitted
from tests.integration.parcels_log import FIRST, Carriers
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

PREVIEW: dict[str, Any] = {
    "code_version": "new000000000",
    "revision": None,
    "holds": False,
    "objections": ["1 kind of difference not declared"],
    "contracts": [{"name": "ParcelTaken", "what": "has lost a field", "rule": "r"}],
    "past": {
        "base": "what was recorded",
        "head": "the working tree",
        "decisions": 1_234,
        "differences": 12,
        "damaged": [],
        "groups": [
            {
                "handler": "depot/parcel.take",
                "input": "ParcelSubmitted",
                "kind": "other",
                "delta": ["~ParcelTaken"],
                "decisions": 1,
                "sagas": ["first-0", "first-1"],
                "reason": None,
                "example": {"saga": "first-0", "before": ["a name of a person"]},
            }
        ]
        * 12,
    },
    "in_flight": {
        "in_flight": 2,
        "shapes": 1,
        "unlawful": [{"key": "first-1", "keys": ["first-1", "x"], "why": "w" * 5_000}],
        "unexplored": [],
        "damaged": [],
    },
}


def parcel(name: str, note: str | None) -> ParcelSubmitted:
    return ParcelSubmitted(parcel_id=name, packed_at=FIRST, note=note)


async def run_as(log: EventLog, version: str, parcels: list[ParcelSubmitted], parked: int) -> None:
    """Handle parcels with a version of the code, until they have ended or are parked."""
    with pytest.MonkeyPatch.context() as patched:
        for module in (runtimes, deployments):
            patched.setattr(module, "code_version", lambda _: version)
        async with Runtime(log, ports={"carrier": Carriers()}) as runtime:
            await runtime.idle()
            for each in parcels:
                await log.publish(each)

            async def is_parked() -> bool:
                return len(await parkings(log)) == parked

            await until(is_parked, longest_s=60)
            await runtime.idle()
        if version == "new000000000":
            await deployments.record_deployments(log, ["depot"], "f" * 40)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def window(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Window]:
    """A console on a log that two versions have worked on; only the second one was recorded, after its first work."""
    directory = tmp_path_factory.mktemp("deployed")
    async with open_log(f"sqlite:///{directory}/log.db", APP) as log:
        first = [parcel(f"first-{n}", "lost" if n == 0 else None) for n in range(4)]
        await run_as(log, "old000000000", [*first, parcel("bad-1", "bug")], 1)
        await run_as(log, "new000000000", [parcel("second", None), parcel("bad-2", "bug"), parcel("bad-3", "bug")], 3)
        await keep_report(log.port, PREVIEW, "os:ada")
        async with opened(log) as window:
            yield window


async def test_the_list_has_what_is_recorded_and_what_the_journals_name_before_it(window: Window) -> None:
    await window.open("/deployment")
    rows = [[cell.text for cell in (*row.all("th"), *row.all("td"))] for row in window.page.all("tr[data-row]")]
    assert [(row[0], row[1], row[3]) for row in rows] == [
        ("new000000000", "ffffffffffff", "depot"),
        ("old000000000", "not known", "depot derived"),
    ]


async def test_a_deployment_shows_what_is_otherwise_since_it(window: Window) -> None:
    await window.open("/deployment")
    await window.follow("old000000000")
    assert "derived from the journals" in window.text
    assert "not known before it" in window.text
    assert "No report is kept of this code." in window.text
    after = {row.all("th")[0].text: [cell.text for cell in row.all("td")] for row in window.page.all("tbody tr")}
    assert after["Ended"] == ["0", "5"]
    assert after["Ended by a failure or a compensation"] == ["0", "1 20.0%"]
    assert [row for row in after if "KeyError" in row] == ["parcel in depot KeyError: … new"]
    assert after["ParcelDelivered"][3] == "4 few"
    assert "few" in window.text
    await window.open(window.path.replace("span", "x") + "?span=7d")
    assert "as long as no other deployment of these services, and no future, is within" in window.text


async def test_a_deployment_shows_the_report_of_its_preview_and_the_sagas_that_span_it(window: Window) -> None:
    await window.open("/deployment")
    await window.follow("new000000000")
    text = window.text
    assert "before it old000000000" in text
    assert "objections 1 kind of difference not declared 12 of 1,234 decisions differed from what was recorded" in text
    assert "ParcelTaken: has lost a field" in text
    assert text.count("depot/parcel.take on ParcelSubmitted: ~ParcelTaken") == 10
    assert "and 2 kinds of difference more, which were not kept" in text
    assert "a name of a person" not in str(await _reports(window))
    assert "first-1 and 1 like it does not end lawfully: www" in text
    assert len(str(await _reports(window))) < 6_000
    await window.follow("The sagas that span it")
    where = "code_version = 'new000000000' and code_version in ('old000000000')"
    assert parse_qs(urlsplit(window.path).query)["where"] == [where]
    assert (await window.client.get("/deployment/1-other", headers={"accept": "text/html"})).status_code == 404
    assert (await window.client.get(f"{window.path}?span=2y", headers={"accept": "text/html"})).status_code != 500


async def _reports(window: Window) -> object:
    assert window.console is not None
    log = window.console.state.index.log
    found = await report_of(log.port, "new000000000")
    assert await report_of(log.port, "other") is None
    assert found is not None
    return found.value


async def test_a_rerecorded_code_keeps_its_newest_report(tmp_path: Path) -> None:
    async with open_log(f"sqlite:///{tmp_path}/log.db", APP) as log:
        await keep_report(log.port, PREVIEW, "os:ada")
        await keep_report(log.port, {**PREVIEW, "holds": True, "revision": "r1"}, "os:bob")
        found = await report_of(log.port, "another", "r1")
        assert found is not None
        assert (found.by, found.value["holds"]) == ("os:bob", True)
        assert len(await SharedNotes(log.port).all("report")) == 1
