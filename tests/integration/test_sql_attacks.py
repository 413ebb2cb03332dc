"""Whatever is asked of a log in SQL changes nothing, comes to an end, and shows nothing personal."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from eventlib import open_log
from eventlib.sql import SqlQuery, ask
from examples.letters import app as letters
from tests.commands import said
from tests.integration.asking import answer, command, refused
from tests.integration.planted_people import letter, person, settled, traces

FOREVER = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT {} FROM c"


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("SELECT contry FROM event_parcel_taken", "did you mean country?"),
        ("SELECT * FROM event_parcel_takn", "did you mean event_parcel_taken?"),
        ("SELECT * FROM state_parcel_history", "`python -m analytics rebuild` makes it"),
        ("SELECT set_at FROM deadlines", "deadlines has no set_at live"),
        ("SELECT percentile(1, 2)", "there is no function percentile"),
        ("SELECT 1; SELECT 2", "more than one statement"),
        ("SELEC 1", 'near "SELEC"'),
        ("", "one SELECT"),
        ("/* nothing */", "one SELECT"),
    ],
)
def test_a_wrong_question_is_told_what_is_right(sent: tuple[str, Any], question: str, sentence: str) -> None:
    assert sentence in refused(sent[0], question)


def test_two_columns_of_one_name_are_no_json(sent: tuple[str, Any]) -> None:
    assert "two columns of the answer are named a" in refused(sent[0], "SELECT 1 AS a, 2 AS a", "--json")


@pytest.fixture(scope="module")
def before(sent: tuple[str, Any]) -> dict[str, str]:
    """What there is before anything else is asked."""
    answer(sent[0], "SELECT 1")
    return contents_of(Path(sent[0].removeprefix("sqlite:///")))


@pytest.mark.parametrize(
    "attack",
    [
        "DELETE FROM sagas",
        "DELETE FROM _events",
        "UPDATE eventlib_positions SET next = 0",
        "INSERT INTO _stories VALUES ('a', 'b')",
        "DROP VIEW sagas",
        "CREATE TABLE mine (x)",
        "CREATE TEMP TABLE mine (x)",
        "WITH x AS (SELECT 1) DELETE FROM _events",
        "ATTACH '{log}' AS log",
        "ATTACH ':memory:' AS other",
        "DETACH main",
        "VACUUM INTO '{log}.copy'",
        "REINDEX",
        "ANALYZE",
        "BEGIN IMMEDIATE",
        "COMMIT",
        "PRAGMA query_only = OFF",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA writable_schema = ON",
        "SELECT * FROM pragma_query_only",
        "SELECT load_extension('{log}')",
        "SELECT writefile('{log}.copy', 'x')",
        "SELECT fts3_tokenizer('simple', x'00')",
        "EXPLAIN DELETE FROM _events",
    ],
)
def test_nothing_that_is_asked_changes_anything(sent: tuple[str, Any], before: dict[str, str], attack: str) -> None:
    file = Path(sent[0].removeprefix("sqlite:///"))
    assert refused(sent[0], attack.format(log=file))
    assert contents_of(file) == before


def contents_of(file: Path) -> dict[str, str]:
    """Return what is in the log's files and the tables, but for what readers of SQLite share with each other."""
    kept = (
        each for each in sorted(file.parent.iterdir()) if each.is_file() and not each.name.endswith(("-shm", "-wal"))
    )
    return {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in kept if ".index." not in each.name} | {
        "tables": said(*command(f"sqlite:///{file}", "SELECT count(*), sum(n) FROM _events", "--json")).partition(
            '"pos'
        )[0]
    }


@pytest.mark.parametrize(
    "attack",
    [
        FOREVER.format("count(*)"),
        FOREVER.format("x") + " WHERE x < 0",
        "SELECT instr(zeroblob(9000000), zeroblob(4000000) || x'01')",
        FOREVER.format("group_concat(hex(randomblob(1000000)))"),
        "SELECT count(*) FROM _events a, _events b, _events c, _events d, _events e",
    ],
)
def test_what_never_ends_is_ended(sent: tuple[str, Any], attack: str) -> None:
    assert "was not answered within 0.3 s" in refused(sent[0], attack, "--timeout", "0.3")
    assert answer(sent[0], "SELECT 1 AS one")["rows"] == [{"one": 1}]


@pytest.mark.parametrize(
    "attack",
    [
        FOREVER.format("hex(zeroblob(4000000))"),
        FOREVER.format("zeroblob(9000000)") + " ORDER BY 1",
        "SELECT zeroblob(1000000000)",
    ],
)
def test_what_is_too_large_is_refused(sent: tuple[str, Any], attack: str) -> None:
    assert "is too large" in refused(sent[0], attack)


@pytest.mark.usefixtures("master_key")
async def test_personal_fields_are_masked_whatever_rights_a_log_was_opened_with(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'letters.db'}"
    async with open_log(url, letters) as log:
        await settled(log)
        await log.publish(letter(1), idempotency_key="1")
        await settled(log)
        events = await ask(log, SqlQuery("SELECT * FROM event_letter_submitted"))
        states = await ask(log, SqlQuery("SELECT * FROM state_letter"))
    told = repr((events, states))
    tables = (tmp_path / "letters.db.index.db").read_bytes()
    for text in person(1).values():
        assert text not in told
        assert not any(trace in tables for trace in traces(text))
    (row,) = [dict(zip(events.columns, row, strict=True)) for row in events.rows]
    assert (row["letter_id"], row["name"]) == ("l1", "[personal]")
    assert states.rows
