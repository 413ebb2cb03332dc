"""`eventlib mcp`, asked by the official client over stdio: what it answers is what the commands print, and nothing changes."""

import asyncio
import hashlib
import inspect
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from eventlib import Choreography, open_log
from examples.letters import app as letters
from services import shop
from tests import forked
from tests.commands import ended, said
from tests.integration import parcels_app
from tests.integration.parcels_log import send
from tests.integration.planted_people import letter, person, settled

if TYPE_CHECKING:
    from mcp import Client

ROOT = Path(__file__).parents[2]
Answer = dict[str, Any]


@pytest.fixture(scope="module")
def parcels(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"sqlite:///{tmp_path_factory.mktemp('parcels')}/log.db"

    async def filled() -> None:
        async with open_log(url, parcels_app.APP) as log:
            await send(log, 30)

    asyncio.run(filled())
    return url


@asynccontextmanager
async def assistant(url: str, app: str = "services:shop", **environment: str) -> "AsyncIterator[Client]":
    """Start the server as an assistant's program does, and return the client."""

    from mcp import Client, StdioServerParameters, stdio_client

    line = ["-m", "eventlib", "mcp", "--log", url, "--app", app]
    server = StdioServerParameters(command=sys.executable, args=line, cwd=ROOT, env={**os.environ, **environment})
    async with asyncio.timeout(120), Client(stdio_client(server)) as client:
        yield client


@asynccontextmanager
async def here(url: str, app: Choreography = shop) -> AsyncIterator["Client"]:
    """Return a client of the same server in this process."""
    from mcp import Client

    from eventlib.cli.mcp_server import server_of

    async with open_log(url, app, read_only=True, personal=False) as log, Client(server_of(log)) as client:
        yield client


async def told(client: "Client", tool: str, **arguments: Any) -> Answer:
    found = await client.call_tool(tool, arguments)
    assert not found.is_error, found.content
    answer: Answer = found.structured_content or {}
    assert json.loads(getattr(found.content[0], "text", "")) == answer
    return answer


async def refusal(client: "Client", tool: str, **arguments: Any) -> str:
    found = await client.call_tool(tool, arguments)
    assert found.is_error
    text: str = getattr(found.content[0], "text", "")
    assert "Traceback" not in text
    return text


def printed(*arguments: str) -> list[Answer]:
    return [json.loads(line) for line in said(*arguments, "--json").splitlines()]


def digest_of(url: str) -> bytes:
    return hashlib.sha256(Path(url.removeprefix("sqlite:///")).read_bytes()).digest()


def without_ages(sagas: list[Answer]) -> list[Answer]:
    return [{name: value for name, value in saga.items() if name != "age_ms"} for saga in sagas]


async def test_a_client_sees_tools_that_say_that_they_only_read(filled: str) -> None:
    async with assistant(filled) as client:
        tools = {each.name: each for each in (await client.list_tools()).tools}
        assert {*tools} == {
            *("search_sagas", "search_attributes", "saga", "history", "state_at", "explain_parked"),
            "preview_act",
            *("replay_with_todays_code", "sql", "sql_tables"),
        }
        for tool in tools.values():
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint is True
            assert tool.annotations.destructive_hint is False
            for parameter in tool.input_schema["properties"].values():
                assert parameter["description"]
        assert "order (order_id)" in (client.instructions or "")
        assert "never as instructions" in (client.instructions or "")


async def test_answers_are_those_of_the_commands(filled: str) -> None:
    at = ("--log", filled)
    async with assistant(filled) as client:
        page, (listed,) = (
            await told(client, "search_sagas", where="outcome != 'open'"),
            printed("sagas", "list", "--where", "outcome != 'open'", *at),
        )
        assert without_ages(page["sagas"]) == without_ages(listed["sagas"])
        assert [each["saga"] for each in page["sagas"]]
        attributes = (await told(client, "search_attributes"))["attributes"]
        assert [each["name"] for each in attributes] == [each["name"] for each in printed("sagas", "attributes", *at)]
        saga = await told(client, "saga", key="declined")
        assert saga == {**printed("saga", "declined", *at)[0], "left_out_before": 0}
        then = saga["events"][2]["recorded_at"]
        assert (await told(client, "saga", key="declined", at=then))["states"] == printed(
            "saga", "declined", "--at", then, *at
        )[0]["states"]
        steps = (await told(client, "history", decider="payment", key="declined"))["steps"]
        assert steps == printed("history", "payment", "declined", *at)
        assert (
            await told(client, "state_at", decider="order", key="declined")
            == printed("state", "order", "declined", *at)[0]
        )
        event = steps[0]["input"]["id"]
        past = await told(client, "state_at", decider="payment", key="declined", at=event)
        assert past == {**printed("state", "payment", "declined", "--at", event, *at)[0], "doubt": None}
        question = "SELECT saga, outcome, reason FROM sagas ORDER BY saga"
        assert (await told(client, "sql", question=question))["rows"] == printed("sql", question, *at)[0]["rows"]
        assert (await told(client, "sql_tables"))["tables"] == printed("sql", *at)


async def test_answers_are_bounded_and_say_what_is_left_out(filled: str) -> None:
    async with here(filled) as client:
        whole = await told(client, "saga", key="large")
        part = await told(client, "saga", key="large", limit=3)
        assert part["events"] == whole["events"][-3:]
        assert part["left_out_before"] == len(whole["events"]) - 3
        one = await told(client, "history", decider="order", key="large", limit=1)
        assert (len(one["steps"]), one["left_out_before"] > 0) == (1, True)
        assert "less than or equal to 200" in await refusal(client, "sql", question="SELECT 1", limit=201)


async def test_what_is_parked_is_explained_with_what_a_retry_would_come_to(filled: str, parcels: str) -> None:
    async with here(filled) as client:
        listed = (await told(client, "explain_parked"))["parked"]
        assert {each["key"] for each in listed} == {"broken", "garbled"}
        (effect,) = (await told(client, "explain_parked", key="broken"))["parked"]
        assert effect["id"] in {each["id"] for each in listed}
        assert effect["reason"] == "TerminalError: the gateway does not know us"
        assert effect["retry"]["comes_to"] == "asks again"
        fields = {"decider": effect["decider"], "key": effect["id"]}
        seen = await told(client, "preview_act", act="Retry", fields=fields)
        assert (seen["done"], seen["previews"][0]["prospect"]) == (False, "asks again")
        assert "field colour" in await refusal(client, "preview_act", act="Retry", fields={**fields, "colour": 1})
        assert "there is no act 'Delete'" in await refusal(client, "preview_act", act="Delete", fields={})
        assert effect["a_person_can"][0] == f"eventlib parked retry {effect['decider']} {effect['id']}"
    async with here(parcels, parcels_app.APP) as client:
        first = (await told(client, "explain_parked"))["parked"][0]["key"]
        (key,) = (await told(client, "explain_parked", key=first))["parked"]
        assert key["retry"]["comes_to"] == "parks again"
        assert "in take" in key["traceback"]
        assert key["inputs"][0]["data"]["note"] == "bug"


async def test_a_replay_tells_what_todays_code_would_decide_otherwise(parcels: str, tmp_path: Path) -> None:
    source = inspect.getsource(parcels_app)
    (tmp_path / "parcels_tomorrow.py").write_text(
        "print('imported')\n" + source.replace("note=asked.note)]", "note='tomorrow')]")
    )
    async with here(parcels, parcels_app.APP) as client:
        same = await told(client, "replay_with_todays_code")
        assert (same["differences"], same["decisions"] > 30) == (0, True)
        ended_one = (await told(client, "search_sagas", where="status = 'ended'", limit=1))["sagas"][0]["saga"]
    async with assistant(parcels, "parcels_tomorrow:APP", PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}") as client:
        every = await told(client, "replay_with_todays_code")
        assert every["differences"] > 10
        one = await told(client, "replay_with_todays_code", saga=ended_one)
        assert (one["differences"], one["sagas"]) == (1, [ended_one])
        assert "no event on this log has the key 'nobody'" in await refusal(
            client, "replay_with_todays_code", saga="nobody"
        )


WRONG: list[tuple[str, Answer, str]] = [
    ("search_sagas", {"where": "contry = 'x'"}, "column 1: sagas have no 'contry'"),
    ("saga", {"key": "nobody"}, "no event on this log has the key 'nobody'"),
    ("saga", {"key": "declined", "at": "yesterday"}, "'yesterday' is no time"),
    ("history", {"decider": "nobody", "key": "1"}, "there is no decider 'nobody'; known are"),
    ("state_at", {"decider": "order", "key": "nobody"}, "knows nothing of key 'nobody'"),
    ("explain_parked", {"key": "declined"}, "nothing is parked under 'declined'"),
    ("sql", {"question": "DELETE FROM sagas"}, "only questions are answered here"),
    ("sql", {"question": "PRAGMA query_only = OFF"}, "only questions are answered here"),
    ("sql", {"question": "SELECT nope FROM sagas"}, "there is no column 'nope'"),
]


async def test_errors_are_sentences_and_the_next_question_is_answered(filled: str) -> None:
    async with here(filled) as client:
        for tool, arguments, sentence in WRONG:
            assert sentence in await refusal(client, tool, **arguments)
            assert (await told(client, "sql", question="SELECT 1 AS one"))["rows"] == [{"one": 1}]


async def test_the_log_is_as_it_was_after_every_tool(filled: str) -> None:
    before = digest_of(filled)
    async with here(filled) as client:
        for tool in (await client.list_tools()).tools:
            given: dict[str, Any] = {"key": "broken", "decider": "payment", "question": "SELECT * FROM parked"}
            given |= {"act": "Discard", "fields": {"decider": "payment", "key": "broken"}}
            wanted = {name: given[name] for name in tool.input_schema["properties"] if name in given}
            await told(client, tool.name, **wanted)
    assert digest_of(filled) == before


@pytest.mark.usefixtures("master_key")
async def test_personal_data_is_masked_also_where_the_keys_are(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'letters.db'}"
    async with open_log(url, letters) as log:
        await settled(log)
        for number in (1, 5):  # the second one is parked
            await log.publish(letter(number), idempotency_key=str(number))
        await settled(log)
    answers = ""
    async with assistant(url, "examples.letters:app") as client:
        for tool, arguments in (
            ("search_sagas", {}),
            ("saga", {"key": "l1"}),
            ("history", {"decider": "letter", "key": "l1"}),
            ("state_at", {"decider": "letter", "key": "l1"}),
            ("explain_parked", {}),
            ("explain_parked", {"key": "l5"}),
            ("preview_act", {"act": "RetryAll", "fields": {}}),
            ("replay_with_todays_code", {}),
            ("sql", {"question": "SELECT * FROM event_letter_submitted"}),
        ):
            answers += json.dumps(await told(client, tool, **arguments))
    assert "[personal]" in answers
    for each in (*person(1).values(), *person(5).values()):
        assert each not in answers


def test_a_log_that_is_not_there_is_a_sentence_before_anything_is_served() -> None:
    done = ended("mcp", "--log", "sqlite:////nowhere/shop.db")
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no log at /nowhere/shop.db" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_also_while_it_waits_for_a_question(filled: str, number: signal.Signals) -> None:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    line = [sys.executable, "-m", "eventlib", "mcp", "--log", filled]
    with forked.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(
            json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}).encode() + b"\n"
        )
        server.stdin.flush()
        assert b"eventlib: shop" in server.stdout.readline()
        server.send_signal(number)
        assert server.wait(60) == -number
