"""Every output shows events and states in the one JSON form, whatever their fields have, and it can be read back."""

import asyncio
import html
import json
from decimal import Decimal
from math import nan
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from eventlib import Runtime, open_log
from eventlib.errors import ContractError
from eventlib.http import SagaApi
from eventlib.json_form import json_of, json_text, read_json
from eventlib.model.record import Record
from eventlib.operations.as_json import changes_json, event_json, waiting_json
from eventlib.outbox.rows import OutboxRow, event_in, rows_of
from eventlib.queries import SagaIndex
from eventlib.queries.decoding import Reading
from eventlib.queries.parked import Parking, WaitingInput
from eventlib.replay.comparison import Change, compared_event, same
from eventlib.testing import client_of
from eventlib.values import from_ms
from eventlib.webhooks.cloudevents import cloud_event, content_of, events_of
from tests.apps.fields import shown
from tests.commands import said
from tests.console.browsers import running_console
from tests.integration.odd_app import APP, FIELDS, VALUES, OddAsked, OddDone, State, asked, odds

DONE = OddDone(odd_id="o1", run=1, **VALUES)
STATE = json_of(DONE)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    found = f"sqlite:///{tmp_path_factory.mktemp('odd')}/log.db"

    async def filled() -> None:
        async with open_log(found, APP) as log, Runtime(log) as running:
            await log.publish(asked())
            await running.idle()

    asyncio.run(filled())
    return found


def lines(url: str, *command: str) -> list[Any]:
    text = said(*command, "--log", url, "--app", "tests.integration.odd_app:APP", "--json")
    return [json.loads(line, parse_constant=_refuse) for line in text.splitlines()]


def _refuse(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def is_done(data: Any) -> None:
    assert shown(read_json(OddDone, json.dumps(data))) == shown(DONE)


def is_state(data: Any) -> None:
    assert data == {f"f_{name}": STATE[name] for name in FIELDS}
    read: Any = read_json(State, json.dumps(data))
    assert [shown(getattr(read, f"f_{name}")) for name in FIELDS] == [shown(getattr(DONE, name)) for name in FIELDS]


def test_commands_show_every_value(url: str) -> None:
    is_done(next(line["data"] for line in lines(url, "tail", "odd")))
    (saga,) = lines(url, "saga", "o1")
    is_done(next(event["data"] for event in saga["events"] if event["type"] == "OddDone"))
    (step, *_) = lines(url, "history", "odd", "o1")
    is_done(step["said"][0]["data"])
    is_state(lines(url, "history", "odd", "o1")[-1]["state"])
    is_state(lines(url, "state", "odd", "o1")[0]["state"])
    assert lines(url, "replay")[0]["decisions"] == 1


def test_what_is_shown_can_be_published(tmp_path: Path) -> None:
    other = f"sqlite:///{tmp_path}/log.db"
    text = json_text(asked())
    said("publish", "OddAsked", "--data", text, "--log", other, "--app", "tests.integration.odd_app:APP")
    (line,) = lines(other, "tail", "odd.requests")
    assert shown(read_json(OddAsked, json.dumps(line["data"]))) == shown(asked())


@pytest.mark.parametrize("mode", ["structured", "binary", "batch"])
def test_webhooks_carry_every_value(mode: Any) -> None:
    record = Record("odd", 0, 0, 0, b"o1", b"", id="1")
    content = content_of([cloud_event(record, DONE, "odds", personal=True)], mode)
    is_done(events_of(content)[0].data)


@pytest.mark.parametrize(
    ("field", "value"),
    [("number", 2**64), ("text", "\ud800"), ("loose", Decimal("1e30")), ("money", Decimal("1.23456"))],
)
def test_an_outbox_refuses_what_its_relay_cannot_bring(field: str, value: object) -> None:
    with pytest.raises(ContractError, match=field):
        rows_of(APP, [asked().model_copy(update={field: value})])


class Wanted(BaseModel):
    run: int


def requested(odd_id: str, wanted: Wanted) -> OddAsked:
    return asked(odd_id, wanted.run)


def a_model(_: Any) -> Wanted:
    return Wanted(run=1)


async def test_event_streams_carry_every_value(url: str) -> None:
    async with open_log(url, APP) as log:
        api = SagaApi(SagaIndex(log, odds), OddAsked, name="odds")
        async with client_of(api.include(api.resource("/odds", requested, a_model))) as client:
            told = (await client.get("odds/o1/events")).text
    data = [json.loads(line.removeprefix("data: ")) for line in told.splitlines() if line.startswith("data: {")]
    is_done(next(each["data"] for each in data if each["type"] == "OddDone"))


async def test_the_consoles_pages_show_every_value(url: str) -> None:
    async with (
        open_log(url, APP) as log,
        running_console(log) as console,
        httpx.AsyncClient(base_url=console) as client,
    ):
        partition = APP.event("OddDone").__contract__.topic.partition_of(b"o1")  # type: ignore[union-attr]  # it has one
        pages = [
            f"/topics/odd?partition={partition}",
            f"/record/odd/{partition}/0",
            "/saga/o1",
            "/moment/o1",
            "/compare?a=o1&b=o1",
        ]
        for page in pages:
            found = await client.get(page, headers={"accept": "text/html"})
            assert found.status_code == 200, page
            if page.startswith(("/record", "/saga", "/moment")):  # the others show the first fields
                assert "data:;base64,/wA=" in html.unescape(found.text), page


def test_an_outbox_takes_what_publish_takes_and_its_relay_brings_it() -> None:
    (row,) = rows_of(APP, [asked()])
    found = event_in(OutboxRow(1, "", row["type"], row["topic"], row["key"], row["body"], "{}", None), APP)
    assert shown(found) == shown(asked())


def test_the_admin_api_answers_with_every_value() -> None:
    """Its answers are JSON of Starlette, which takes nothing but what JSON has."""
    record = Record("odd", 0, 0, 0, b"o1", b"", id="1")
    parking = Parking("odds", "odd", "o1", 0, from_ms(0), 1, "broken")
    waits = waiting_json(parking, WaitingInput(record, "broken", Reading(record, DONE, None)))
    preview = event_json(DONE, personal=True)
    change = {"change": changes_json([Change("ratio", nan, b"\xff")])}
    for answer in (waits, preview):
        is_done(json.loads(bytes(JSONResponse(answer).body))["data"])
    assert JSONResponse(change).body == b'{"change":[{"field":"ratio","before":"NaN","after":"data:;base64,/w=="}]}'


def test_replay_tells_odd_values_apart() -> None:
    record = Record("odd", 0, 0, 0, b"o1", b"", id="1")
    other = DONE.model_copy(update={"ratio": VALUES["large"]})
    assert same([DONE], [(record, DONE.model_copy())])
    assert not same([other], [(record, DONE)])
    assert compared_event(other).facts["ratio"] == "-Infinity"
