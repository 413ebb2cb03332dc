"""SQL over a log has every value whole, changes nothing, comes to an end, and shows nothing personal."""

import asyncio
import hashlib
import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Context, Decimal, localcontext
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest

from eventlib import Choreography, Decider, Event, Runtime, Service, open_log
from eventlib.sql import SqlQuery, ask
from examples.letters import app as letters
from tests.commands import ended, said
from tests.integration.asking import answer, command, refused
from tests.integration.planted_people import letter, person, settled, traces

DIGITS = [
    *("12345678901234567890.123456789012345678", "-99999999999999999999.999999999999999999", "0", "1E-18", "2.5", "10"),
    *("-0.000000000000000002", "9999999999", "12345678901.5", "100000000000000000.5"),
]
MOMENTS = [datetime(2026, 1, 1, 0, 0, 0, micros, UTC) for micros in (0, 250, 1_000, 1_001, 999_999)]


class Paid(Event, topic="paid", key="payment_id", request=True):
    payment_id: str
    amount: Decimal
    at: datetime
    ratio: float = 0.0
    ratios: tuple[float, ...] = ()
    count: int = 0
    amounts: tuple[Decimal, ...] = ()


@dataclass(frozen=True)
class Account:
    amount: Decimal = Decimal(0)


class Booked(Event, topic="booked", key="payment_id", final=True):
    payment_id: str


accounts = Decider("account", state=Account, key="payment_id")


@accounts.evolve
def evolve(account: Account, event: Event) -> Account:
    return replace(account, amount=event.amount) if isinstance(event, Paid) else account


@accounts.on(Paid)
def book(_: Account, paid: Paid) -> list[Booked]:
    return [Booked(payment_id=paid.payment_id)]


APP = Choreography("payments", [Service("payments", deciders=[accounts])])
PAID = [
    Paid(
        payment_id=f"{n:02}",
        amount=Decimal(digits),
        amounts=(Decimal(digits),),
        at=MOMENTS[n % len(MOMENTS)],
        ratio=(nan, inf, -inf, 1.5)[n % 4],
        ratios=(nan, 1.5),
        count=(2**63 - 1, -(2**63), 1)[n % 3],
    )
    for n, digits in enumerate(DIGITS)
]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    found = f"sqlite:///{tmp_path_factory.mktemp('paid')}/log.db"

    async def filled() -> None:
        async with open_log(found, APP) as log, Runtime(log) as running:
            await log.publish_many(PAID)
            await running.idle()

    asyncio.run(filled())
    return found


def rows(url: str, question: str) -> list[dict[str, Any]]:
    text = said("sql", question, "--log", url, "--app", "tests.integration.test_sql_values:APP", "--json")
    found: list[dict[str, Any]] = json.loads(text, parse_constant=_refuse)["rows"]
    return found


def _refuse(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


@pytest.mark.parametrize("question", [
    "SELECT payment_id AS id, amount FROM event_paid", "SELECT key AS id, amount FROM state_account",
    "SELECT payment_id AS id, amounts ->> 0 AS amount FROM event_paid",
    "SELECT payment_id AS id, max(amount) AS amount FROM event_paid GROUP BY payment_id",
])  # fmt: skip
def test_decimals_come_through_with_all_their_digits(url: str, question: str) -> None:
    found = {row["id"]: row["amount"] for row in rows(url, question)}
    assert {id_: Decimal(text) for id_, text in found.items()} == {each.payment_id: each.amount for each in PAID}
    assert not [text for text in found.values() if "E" in text]
    assert found["02"] == "0"
    assert found["03"] == "0.000000000000000001"


def test_sums_of_decimals_are_exact(url: str) -> None:
    with localcontext(Context(prec=100)):
        total = sum((each.amount for each in PAID), Decimal(0))
    assert Decimal(rows(url, "SELECT sum(amount) AS s FROM event_paid")[0]["s"]) == total
    assert rows(url, "SELECT sum(amount) AS s FROM event_paid WHERE amount IN (2.5, 10)") == [{"s": 12.5}]
    (row,) = rows(url, "SELECT sum(amount) OVER (ORDER BY amount ROWS 1 PRECEDING) AS s FROM event_paid ORDER BY amount DESC LIMIT 1")  # fmt: skip
    assert row == {"s": "12445678901234567890.623456789012345678"}
    assert rows(url, "SELECT sum(amount) AS s FROM event_paid WHERE 0") == [{"s": None}]


@pytest.mark.parametrize(
    ("condition", "is_meant"),
    [
        ("amount > 9.5", lambda each: each.amount > Decimal("9.5")),
        ("amount < 0", lambda each: each.amount < 0),
        ("amount = 2.5", lambda each: each.amount == Decimal("2.5")),
        ("amount > '12345678901234567890.1'", lambda each: each.amount > Decimal("12345678901234567890.1")),
        ("amount BETWEEN 0 AND 1", lambda each: 0 <= each.amount <= 1),
        ("at > '2026-01-01T00:00:00.001Z'", lambda each: each.at > MOMENTS[2]),
        ("at <= '2026-01-01T00:00:00.000250Z'", lambda each: each.at <= MOMENTS[1]),
    ],
)
def test_decimals_and_times_compare_as_what_they_are(url: str, condition: str, is_meant: Any) -> None:
    found = rows(url, f"SELECT payment_id FROM event_paid WHERE {condition} ORDER BY payment_id")  # noqa: S608
    assert [row["payment_id"] for row in found] == [each.payment_id for each in PAID if is_meant(each)]


@pytest.mark.parametrize("order", ["amount", "at"])
def test_decimals_and_times_sort_as_what_they_are(url: str, order: str) -> None:
    found = rows(url, f"SELECT payment_id FROM event_paid ORDER BY {order}, payment_id")  # noqa: S608
    assert [row["payment_id"] for row in found] == [
        each.payment_id for each in sorted(PAID, key=lambda each: (getattr(each, order), each.payment_id))
    ]


def test_times_keep_their_microseconds(url: str) -> None:
    found = {row["at"] for row in rows(url, "SELECT at FROM event_paid")}
    assert found == {f"2026-01-01T00:00:00.{rest}Z" for rest in ("000", "000250", "001", "001001", "999999")}


def test_floats_that_json_has_no_numbers_for(url: str) -> None:
    found = rows(url, "SELECT ratio, ratios, count FROM event_paid ORDER BY payment_id")
    assert [row["ratio"] for row in found[:4]] == [None, "Infinity", "-Infinity", 1.5]
    assert found[0]["ratios"] == ["NaN", 1.5]
    assert [row["count"] for row in found[:3]] == [2**63 - 1, -(2**63), 1]


@pytest.mark.parametrize(
    "question", ["SELECT sum(count) FROM event_paid WHERE count > 0", "SELECT abs(min(count)) FROM event_paid"]
)
def test_an_integer_that_is_too_large_is_named_with_the_remedy(url: str, question: str) -> None:
    done = ended("sql", question, "--log", url, "--app", "tests.integration.test_sql_values:APP")
    assert done.returncode == 1
    assert "more than 64 bits (a sum, abs): write total(column)" in done.stderr


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
