"""Declarations of tables that contradict themselves, or each other, are refused with what to write instead."""

from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import DataFrame

from analytics.audit.application import Application
from analytics.rebuilding import catalogue
from analytics.rebuilding.catalogue import Catalogue, catalogue_of
from analytics.rebuilding.sql_files import sql_table
from analytics.tables import Column, Events, Table, not_null, table, unique
from eventlib.errors import WiringError
from tests.analytics.repairs import PartSent

REPAIRS = Application("tests.analytics.repairs:repairs")


def made(*_: DataFrame) -> Any:
    return None


def named(name: str, *reads: str, **options: Any) -> Table:
    return Table(name=name, make=made, reads={each: each for each in reads}, place=f"{name}.py:1", **options)


def with_own(monkeypatch: pytest.MonkeyPatch, *tables: Table, select: Sequence[str] = ()) -> Catalogue:
    monkeypatch.setattr(
        catalogue, "_declared", lambda module: tables if module.__name__.endswith("repair_tables") else ()
    )
    return catalogue_of(REPAIRS, select)


def test_tables_come_after_what_they_read_and_only_those_selected_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    found = with_own(monkeypatch, named("a", "b"), named("b", "sagas"), select=["a"])
    assert [each.name for each in found.tables] == ["saga_steps", "saga_facts", "sagas", "b", "a"]
    assert found.published == ("saga_steps", "sagas", "b", "a")
    assert found.definition != with_own(monkeypatch, named("a", "b"), named("b"), select=["a"]).definition


@pytest.mark.parametrize(
    ("tables", "told"),
    [
        ([named("a", "b"), named("b", "c"), named("c", "a")], "in a circle: a → b → c → a"),
        ([named("a", "nowhere")], r"table a \(a.py:1\) reads 'nowhere', which there is not; known are a, "),
        ([named("a"), named("a")], "two tables are named a: a.py:1, a.py:1"),
        ([named("sagas")], "two tables are named sagas: the analytics' own, sagas.py:1"),
        ([named("a", "sagas", increment="append")], "a .* is made of new rows only, and sagas has none: it is whole"),
    ],
)
def test_what_cannot_be_made_is_refused(monkeypatch: pytest.MonkeyPatch, tables: list[Table], told: str) -> None:
    with pytest.raises(WiringError, match=told):
        with_own(monkeypatch, *tables)


def test_a_service_that_came_later_has_its_tables_beside_the_shops() -> None:
    found = catalogue_of(Application("examples.loyalty:app"), ["event_points_earned", "orders"])
    assert {"event_points_earned", "orders", "kept"} <= {each.name for each in found.tables}


def test_declarations_are_refused() -> None:
    with pytest.raises(WiringError, match=r"no table 'nowhere': known are bills, "):
        catalogue_of(REPAIRS, ["nowhere"])
    with pytest.raises(WiringError, match="a table that is merged needs key="):
        named("a", increment="merge")
    with pytest.raises(WiringError, match="merges with 'avg'; known are bit_or"):
        named("a", increment="merge", key=("k",), merges={"x": "avg"})
    with pytest.raises(WiringError, match="events='paid' is none of its parameters"):
        table(events={"paid": Events((PartSent,), ("cents",))})(made)


def test_an_sql_file_has_refs_docs_and_tests() -> None:
    text = """-- What was sold,
-- by country.
{{ config(key="country", columns={"country": ["Where to.", "not_null", {"relationships": "a.b"}]}) }}
SELECT country, 1 FROM {{ ref("orders") }} JOIN {{ ref('lines') }} USING (country) JOIN {{ ref("orders") }} AS o
"""
    found = sql_table("sales", text, "sales.sql")
    assert (found.reads, found.key, found.doc) == (
        {"orders": "orders", "lines": "lines"},
        ("country",),
        "What was sold, by country.",
    )
    names = [(column, test.name) for column, test in found.tests()]
    assert names == [("country", "unique"), ("country", "not_null"), ("country", "relationships(a.b)")]
    assert found.columns["country"].tests[0] == not_null
    assert Column("", unique).tests == (unique,)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("SELECT {{ var('x') }}", r"x.sql: .*var.* is not known here"),
        ("{{ config(materialized='table') }} SELECT 1", "config has 'materialized'; known are key, increment"),
        ("{{ config(key=now()) }} SELECT 1", "is no config"),
        ("{{ config(columns={'a': ['A.', 'positive']}) }} SELECT 1", "column a has the test 'positive'; known are"),
        ("{{ config(columns={'a': [1]}) }} SELECT 1", "column a begins with its description"),
    ],
)
def test_an_sql_file_that_says_something_else_is_refused(text: str, told: str) -> None:
    with pytest.raises(WiringError, match=told):
        sql_table("x", text, "x.sql")
