"""The report says what an independent computation says, on a page that needs nothing else and shows nobody's markup."""

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from analytics import report
from analytics.audit import FINDING, Rule
from analytics.audit.application import Application
from analytics.cli import run
from analytics.rebuilding import tables
from analytics.reporting.making import planned_sections, span_of
from analytics.reporting.money import money
from analytics.reporting.page import Made, MadeSection, page
from analytics.reporting.part import Part, duration
from eventlib import open_log
from services import shop
from services.analytics.parts import report as shops
from tests.analytics.figures import Row, figures_of
from tests.analytics.independent import read_all, tables_of
from tests.analytics.sources import REPAIRS

MADE = Made("sqlite:///shop.db", {("orders", 0): range(7)}, "c0de", datetime(2026, 1, 31, 12, tzinfo=UTC), 1.5)
VOID = {"meta", "br", "hr", "img", "input", "link", "path", "use"}
HOSTILE = '<script>alert("$x$")</script>&amp;'


def paged(parts: Mapping[str, Part], span: tuple[datetime, datetime] | None = None) -> str:
    """The page with these parts under one heading."""
    sections = [MadeSection("every", "Every", [*parts.values()])]
    return page("Title", sections, shops.tiles(parts), span, MADE)


class Page(HTMLParser):
    """What a page loads, the text that it shows, its ids, and whether its elements are closed as they are opened."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads, self.ids, self.tags, self.text = list[str](), list[str](), list[str](), list[str]()
        self.open = list[str]()
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        found = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        self.ids += [value for name, value in attrs if name == "id" and value]
        urls = [found.get(name) or "" for name in ("src", "href", "xlink:href", "srcset", "data", "action")]
        self.loads += [url for url in urls if url and not (tag in {"a", "use"} and url.startswith("#"))]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture(scope="module")
def rebuilt(spark: SparkSession, shop_tables: Path) -> Mapping[str, DataFrame]:
    return tables(spark, shop_tables)


@pytest.fixture(scope="module")
def parts(rebuilt: Mapping[str, DataFrame]) -> dict[str, Part]:
    made = [make(rebuilt) for section in planned_sections(shops, shop) for make in section.parts]
    return {part.name: part for part in made}


def in_order(rows: Iterator[Row] | list[Row]) -> list[tuple[tuple[str, Any], ...]]:
    rounded = [{k: round(v, 6) if isinstance(v, float) else v for k, v in row.items()} for row in rows]
    return sorted((tuple(sorted(row.items())) for row in rounded), key=repr)


async def test_its_figures_are_those_of_an_independent_computation(parts: dict[str, Part], shop_log: str) -> None:
    expected = figures_of(tables_of(await read_all(shop_log)))
    assert parts.keys() >= expected.keys()
    for name, rows in expected.items():
        found = [
            {k: float(v) if k.endswith("_ms") and k[0] == "p" else v for k, v in row.items()}
            for row in parts[name].rows
        ]
        wanted = [{k: float(v) if k.endswith("_ms") and k[0] == "p" else v for k, v in row.items()} for row in rows]
        assert in_order(found) == in_order(wanted), name
        assert rows, name


def test_in_a_notebook_a_part_shows_itself(parts: dict[str, Part]) -> None:
    shown = parts["funnel"]._repr_html_()
    assert shown.count("<tr>") == 1 + len(parts["funnel"].rows)
    assert "<svg" in shown
    assert "#0102" not in shown  # no stand-in for a colour is left
    assert parts["funnel"].plot() is not None


def test_the_page_needs_nothing_else_and_is_the_same_for_the_same_input(
    parts: dict[str, Part], rebuilt: Mapping[str, DataFrame]
) -> None:
    html = paged(parts, span_of(rebuilt))
    found = Page(html)
    assert found.loads == []
    assert "script" not in found.tags
    assert not re.search(r"url\((?!#)|@import|javascript:", html)
    assert len(found.ids) == len(set(found.ids))
    assert html.count("<svg ") == html.count(' role="img"') == html.count("<desc>") + 1 > 10  # the diagram has titles
    assert "#0102" not in html
    assert html == paged({name: fresh(part) for name, part in parts.items()}, span_of(rebuilt))
    text = " ".join(found.text)
    for part in parts.values():
        assert part.title in text
        assert all(part.columns[-1].text(row) in text for row in part.rows[:1])
    assert "2026-01-31 12:00:00 UTC, in 1.5 s" in text


def fresh(part: Part) -> Part:
    return with_rows(part, part.rows)


def with_rows(part: Part, rows: Any) -> Part:
    made = replace(part)
    made.__dict__["rows"] = rows
    return made


def test_what_came_from_outside_is_text_and_currencies_stay_apart(parts: dict[str, Part]) -> None:
    row = parts["products"].rows[0]
    two = [row | {"sku": HOSTILE, "revenue_cents": 123456}, row | {"currency": "JPY", "revenue_cents": 9876543}]
    countries = [r | {"country": HOSTILE} for r in parts["countries"].rows]
    totals = [r | {"currency": currency} for currency in ("GBP", "JPY") for r in parts["totals"].rows[:1]]
    changed = {"products": two, "countries": countries, "totals": totals}
    shown = {name: with_rows(parts[name], rows) for name, rows in changed.items()}
    html = paged({**shown, "waits": parts["waits"]})
    found = Page(html)
    assert "script" not in found.tags
    assert "".join(found.text).count(HOSTILE) >= 4  # tables, pictures, and their words
    assert "1,234.56 GBP" in html
    assert "9,876,543 JPY" in html
    assert "revenue, JPY" not in html


def test_the_audits_findings_stand_beside_all_that_it_looked_for(spark: SparkSession, parts: dict[str, Part]) -> None:
    declared = (Rule("first", "error", "One."), Rule("second", "warning", "Two."))
    beside = {name: parts[name] for name in ("totals", "waits")}
    found = [("second", "warning", "17", "order_id 17", ["id"], f"It is not so: {HOSTILE}")]
    for rows, says in (([], "Nothing: every rule below holds."), (found, "It is not so")):
        findings = spark.createDataFrame(rows, FINDING)
        both = {part.name: part for part in (report.findings(findings), report.rules(findings, declared))}
        assert [(row["rule"], row["findings"]) for row in both["rules"].rows] == (
            [("second", 1), ("first", 0)] if rows else [("first", 0), ("second", 0)]
        )
        text = " ".join(Page(paged({**beside, **both})).text)
        assert says in text
        assert ("the audit found nothing" in text) == (not rows)


@pytest.mark.extended
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("app", [REPAIRS, Application("services:shop")])
def test_a_log_without_sagas_has_a_page_that_says_so(
    app: Application, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    url = f"sqlite:///{tmp_path}/empty.db"
    asyncio.run(nothing(url, app))
    out = tmp_path / "made" / "report.html"
    command = ["report", "--app", str(app.named), "--log", url, "--out", str(out), "--no-audit", "--json"]
    assert run(command) == 0
    told = json.loads(capfdbinary.readouterr().out.splitlines()[-1])
    assert (told["out"], told["bytes"], told["findings"]) == (str(out), out.stat().st_size, None)
    text = " ".join(Page(out.read_text(encoding="utf-8")).text)
    assert "No saga has begun on this log yet." in text
    assert run(["report", "--log", "sqlite:///nowhere/shop.db"]) == 1
    assert b"there is no log at nowhere/shop.db" in capfdbinary.readouterr().err


async def nothing(url: str, app: Application) -> None:
    async with open_log(url, app.choreography):
        pass


@pytest.mark.parametrize(
    ("minor", "currency", "text"),
    [
        (123456, "EUR", "1,234.56 EUR"),
        (-5, "GBP", "-0.05 GBP"),
        (1234, "JPY", "1,234 JPY"),
        (1234567, "KWD", "1,234.567 KWD"),
        (0, "CLF", "0.0000 CLF"),
        (123, "no currency", "1.23 no currency"),
    ],
)
def test_money_is_written_with_its_currencys_decimals(minor: int, currency: str, text: str) -> None:
    assert money(minor, currency) == text


def test_durations_are_written_in_the_unit_that_a_person_would_choose() -> None:
    assert [duration(ms) for ms in (0, 999, 1_000, 90_000, 5_400_000, 172_800_000)] == [
        *("0 ms", "999 ms", "1.0 s", "1.5 min", "1.5 h", "2.0 d"),
    ]
