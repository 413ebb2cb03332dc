"""With the address of a console, a report links to its pages; without it, it links nowhere."""

import re
from datetime import UTC, datetime
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from analytics.report import Column, Part, saga_page, sagas_page
from analytics.reporting.console_pages import console_named, parked_page
from analytics.reporting.page import Made, MadeSection, page
from eventlib.errors import WiringError
from eventlib.http.paths import segment_of
from eventlib.search.parked import parked_where

_MADE = Made("sqlite:///shop.db", {("orders", 0): range(7)}, "c0de", datetime(2026, 1, 31, 12, tzinfo=UTC), 1.5)
_ODD = "It's <100 % & \u014d"


def paged(rows: list[dict[str, Any]], console: str = "") -> str:
    columns = (
        Column("saga", "saga", page=lambda row: saga_page(row["saga"])),
        Column("sagas", "sagas", "count", lambda row: sagas_page({"outcome": row["outcome"], "reason": row["reason"]})),
    )
    part = Part("stuck", "Stuck", "Says.", columns, frame=None)  # type: ignore[arg-type]  # its rows are given
    part.__dict__["rows"] = rows
    return page("Title", [MadeSection("every", "Every", [part])], [], None, _MADE, console)


def links(html: str) -> list[str]:
    return [unescape(found) for found in re.findall(r'<a href="(http[^"]*)"', html)]


def test_a_row_links_to_its_saga_and_to_the_search_for_those_alike() -> None:
    rows = [
        {"saga": saga, "sagas": 3, "outcome": "order_cancelled", "reason": why}
        for saga, why in (("", None), (_ODD, _ODD))
    ]
    assert links(paged(rows)) == []
    first, saga, second = links(paged(rows, "http://127.0.0.1:9000"))
    assert saga == f"http://127.0.0.1:9000/saga/{segment_of(_ODD)}"
    where = [parse_qs(urlsplit(each).query)["where"] for each in (first, second)]
    assert where == [
        ["outcome = 'order_cancelled' and reason is null"],
        ["outcome = 'order_cancelled' and reason = 'It''s <100 % & \u014d'"],
    ]
    assert all(urlsplit(each).path == "/sagas" for each in (first, second))


def test_what_is_parked_for_a_cause_is_searched_for_in_the_consoles_language() -> None:
    where = parse_qs(urlsplit(parked_page({"service": "stock", "decider": "shelf", "reason": _ODD})).query)["where"]
    assert callable(parked_where(where[0]))


@pytest.mark.parametrize("saga", [".", "..", "~.", "D1-000085", "a/b c"])
def test_the_address_of_a_saga_is_the_consoles(saga: str) -> None:
    assert saga_page(saga) == f"/saga/{segment_of(saga)}"


def test_the_address_of_a_console_is_checked() -> None:
    assert console_named("https://console.shop/ops/") == "https://console.shop/ops"
    with pytest.raises(WiringError, match=r"write a console.s address, such as http://"):
        console_named("127.0.0.1:9000")
