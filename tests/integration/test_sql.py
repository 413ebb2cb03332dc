"""SQL over a log: what it answers is what is on the log."""

import asyncio
import csv
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from eventlib import Publication, open_log
from eventlib.devtools.kafka import Cluster
from eventlib.search import SagaQuery, SagaSearch
from eventlib.sql import SqlQuery, ask
from tests import forked
from tests.commands import ended, said
from tests.integration.asking import answer, command
from tests.integration.parcels_app import APP, ParcelSubmitted
from tests.integration.parcels_log import send


def test_values_of_every_type_are_what_was_sent(sent: tuple[str, list[ParcelSubmitted]]) -> None:
    rows = answer(sent[0], "SELECT * FROM event_parcel_submitted ORDER BY parcel_id")["rows"]
    assert [{name: row[name] for name in ParcelSubmitted.model_fields} for row in rows] == [
        {
            **each.model_dump(mode="json"),
            "packed_at": each.packed_at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "labels": list(each.labels),
        }
        for each in sent[1]
    ]


CONDITIONS: dict[str, Callable[[ParcelSubmitted], bool]] = {
    "fee > 9.5": lambda each: each.fee > 9.5,
    "NOT insured AND litres < 1.5": lambda each: not each.insured and each.litres < 1.5,
    "packed_at < '2026-01-01T00:00:50Z'": lambda each: each.packed_at.timestamp() < 1767225650,
    "grams = 1099511627776": lambda each: each.grams == 2**40,
    "note IS NULL AND country = '日本'": lambda each: each.note is None and each.country == "日本",
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_compare_values_and_not_texts(sent: tuple[str, list[ParcelSubmitted]], condition: str) -> None:
    wanted = {each.parcel_id for each in sent[1] if each.note != "bug" and CONDITIONS[condition](each)}
    found = answer(sent[0], f"SELECT parcel_id FROM event_parcel_taken WHERE {condition}")["rows"]  # noqa: S608
    assert {row["parcel_id"] for row in found} == wanted != set()


def test_an_answer_says_where_on_the_log_it_stands(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/log.db"

    async def more(count: int) -> dict[str, int]:
        async with open_log(url, APP) as log:
            await send(log, count)
            topic = (await log.port.topics())["parcels.requests"]
            return {f"{topic.name}/{n}": await log.port.end(topic.name, n) for n in range(topic.partitions)}

    for count, published in ((3, 3), (6, 9)):
        ends = asyncio.run(more(count))
        found = answer(url, "SELECT count(*) AS n FROM event_parcel_submitted")
        assert found["rows"] == [{"n": published}]
        assert found["position"] == ends
    question = "SELECT count(*) AS n FROM event_parcel_submitted"
    assert f"as of {sum(found['position'].values()):,} offsets" in said(*command(url, question))


EVENTS = {"parcels", "parcels.requests", "labels"}
QUESTIONS = {
    "SELECT * FROM state_parcel ORDER BY key": {"depot.changelog"},
    "SELECT * FROM event_parcel_taken ORDER BY parcel_id": {"parcels"},
    "SELECT * FROM deadlines ORDER BY key": {"depot.changelog"},
    "SELECT * FROM sagas ORDER BY saga": EVENTS,
    "SELECT * FROM parked ORDER BY key": EVENTS | {"depot.changelog", "depot.parked"},
    "SELECT count(*) AS n, sum(n IS NULL) AS m FROM _events": EVENTS,
    "SELECT 1 AS one": set(),
}


def test_a_question_reads_the_topics_of_its_tables_only(tmp_path: Path) -> None:
    """And has the same answer as when all was read at once, whatever was read before."""
    url = f"sqlite:///{tmp_path}/log.db"

    async def filled() -> None:
        async with open_log(url, APP) as log:
            await send(log, 20)

    asyncio.run(filled())
    one_by_one = {each: answer(url, each) for each in QUESTIONS}
    assert {each: topics_in(found) for each, found in one_by_one.items()} == QUESTIONS
    for file in tmp_path.glob("log.db.index*"):
        file.unlink()
    answer(url, "SELECT 1 FROM sagas, parked, state_parcel WHERE 0")
    assert {each: answer(url, each) for each in QUESTIONS} == one_by_one


def test_one_file_serves_search_and_questions_and_keeps_the_tables_of_fields(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/log.db"

    async def filled() -> None:
        async with open_log(url, APP) as log:
            await send(log, 20)

    asyncio.run(filled())
    sagas = {each["saga"] for each in listed(url)}
    assert {row["saga"] for row in answer(url, "SELECT saga FROM sagas")["rows"]} == sagas
    assert not tables_of_fields(tmp_path)
    taken = answer(url, "SELECT count(*) AS n FROM event_parcel_taken")["rows"]
    assert {each["saga"] for each in listed(url)} == sagas
    assert "_event_parcel_taken" in tables_of_fields(tmp_path)
    assert answer(url, "SELECT count(*) AS n FROM event_parcel_taken")["rows"] == taken
    assert [each.name for each in tmp_path.glob("log.db.*.db")] == ["log.db.index.db"]


def listed(url: str) -> list[dict[str, Any]]:
    app = ("--app", "tests.integration.parcels_app:APP")
    found: list[dict[str, Any]] = json.loads(said("sagas", "list", "--limit", "99", "--json", "--log", url, *app))[
        "sagas"
    ]
    return found


def tables_of_fields(directory: Path) -> set[str]:
    with closing(sqlite3.connect(directory / "log.db.index.db")) as db:
        names = db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    return {name for (name,) in names if name.startswith(("_event_", "_state_"))}


def topics_in(found: dict[str, Any]) -> set[str]:
    return {place.partition("/")[0] for place in found["position"]}


async def test_sagas_are_those_that_the_search_finds(sent: tuple[str, list[ParcelSubmitted]], tmp_path: Path) -> None:
    async with open_log(sent[0], APP, read_only=True) as log, SagaSearch(log, path=tmp_path / "sagas.db") as search:
        assert await search.caught_up(10.0)
        page = await search.full_page(SagaQuery(limit=1_000))
    columns = ("saga", "outcome", "reason", "steps", "failures", "compensations", "duration_ms")
    found = answer(sent[0], f"SELECT {', '.join(columns)} FROM sagas ORDER BY saga")["rows"]  # noqa: S608
    sagas = [{name: saga[name] for name in columns} for saga in sorted(page.sagas, key=lambda each: each["saga"])]
    assert [row for row in found if row["outcome"] != "open"] == [row for row in sagas if row["outcome"] != "open"]
    assert {row["saga"] for row in found} == {row["saga"] for row in sagas}


def test_states_wait_and_deadlines_come(sent: tuple[str, list[ParcelSubmitted]]) -> None:
    bugs = {each.parcel_id for each in sent[1] if each.note == "bug"}
    parked = answer(sent[0], "SELECT key, service, decider, reason, input_type FROM parked")["rows"]
    assert {row["key"] for row in parked} == bugs
    assert {(row["service"], row["decider"], row["input_type"]) for row in parked} == {
        ("depot", "parcel", "ParcelSubmitted")
    }
    away = {each.parcel_id for each in sent[1] if each.note == "away"}
    effects = answer(sent[0], "SELECT key, port, handler FROM effects WHERE outcome = 'open'")["rows"]
    assert {row["key"] for row in effects} == away
    joined = "SELECT d.key FROM deadlines d JOIN state_parcel s ON s.key = d.key JOIN effects e ON e.key = d.key"
    assert {row["key"] for row in answer(sent[0], f"{joined} WHERE e.outcome = 'open'")["rows"]} == away


def test_what_is_cut_says_so(sent: tuple[str, list[ParcelSubmitted]]) -> None:
    question = "SELECT parcel_id FROM event_parcel_submitted"
    assert answer(sent[0], question, "--limit", "60")["is_cut"] is False
    assert answer(sent[0], question, "--limit", "59")["is_cut"] is True
    assert "only the first 59 rows" in ended(*command(sent[0], question, "--limit", "59")).stderr


def test_csv_is_read_back_and_moves_no_cursor(sent: tuple[str, list[ParcelSubmitted]]) -> None:
    text = said(*command(sent[0], "SELECT 'a,\"b' AS x, NULL AS y, 1.5 AS z, char(27) || '[2J' AS esc", "--csv"))
    assert [*csv.reader(StringIO(text))] == [["x", "y", "z", "esc"], ['a,"b', "", "1.5", "\\u001b[2J"]]


def test_two_questions_at_once_have_the_same_answer(sent: tuple[str, Any]) -> None:
    question = command(sent[0], "SELECT count(*) AS n FROM event_parcel_submitted", "--json")
    line = [sys.executable, "-m", "eventlib", *question]
    both = [forked.Popen(line, stdout=subprocess.PIPE, env=dict(os.environ), text=True) for _ in range(2)]
    assert [json.loads(each.communicate(timeout=120)[0])["rows"] for each in both] == [[{"n": 60}]] * 2


def test_another_applications_log_is_named(sent: tuple[str, Any]) -> None:
    done = ended("sql", "SELECT 1 FROM sagas", "--log", sent[0], "--app", "services:shop")
    assert (done.returncode, done.stdout) == (1, "")
    assert "the log has no topic '" in done.stderr
    assert "another application's than shop" in done.stderr


async def test_it_is_the_same_on_kafka(broker: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # its tables are in `var`
    async with open_log(f"{broker.url}/?prefix=sql.", APP) as log:
        requests = await send(log, 12)
        for more in (0, 2):
            await log.publish_many(
                [Publication(each, idempotency_key=f"{n}") for n, each in enumerate(requests[:more])]
            )
            found = await ask(log, SqlQuery("SELECT parcel_id FROM event_parcel_submitted ORDER BY 1"))
            assert [row for (row,) in found.rows] == sorted([each.parcel_id for each in requests + requests[:more]])
            end = await log.port.end("parcels.requests", 0)
            assert found.position["parcels.requests/0"] == end
        states = await ask(log, SqlQuery("SELECT s.key, saga, outcome FROM state_parcel s JOIN sagas ON saga = s.key"))
        assert {key for key, *_ in states.rows} == {each.parcel_id for each in requests if each.note != "bug"}
