"""Two sagas side by side: aligned by the types of their events, and their states where these differ."""

import pytest

from eventlib.console.compare_page import aligned
from eventlib.model.record import Record
from eventlib.model.saga import Saga, saga_of
from tests.console.rates_app import app
from tests.console.windows import Window

pytestmark = pytest.mark.asyncio(loop_scope="session")


def saga(key: str, types: str) -> Saga:
    records = [
        Record("asked", 0, at, at, key.encode(), b"", id=f"{key}{at}", type=name) for at, name in enumerate(types)
    ]
    return saga_of(key, [(record, None) for record in records], app)


def shown(one: str, other: str) -> list[str]:
    pairs = aligned(saga("1", one), saga("2", other))
    return [
        f"{'-' if pair.one is None else pair.one.first.type}{'-' if pair.other is None else pair.other.first.type}"
        for pair in pairs
    ]


@pytest.mark.parametrize(
    ("one", "other", "lines"),
    [
        ("ABC", "ABC", "AA BB CC"),
        ("ABC", "ABDC", "AA BB -D CC"),
        ("ABC", "AC", "AA B- CC"),
        ("ABX", "ABYZ", "AA BB XY -Z"),
        ("A", "B", "AB"),
    ],
)
async def test_events_are_aligned_by_type(one: str, other: str, lines: str) -> None:
    assert shown(one, other) == lines.split()


async def test_a_saga_that_never_ends_is_compared_in_its_first_lines() -> None:
    assert len(shown("AB" * 3_000, "BA" * 3_000)) <= 1_000


async def test_two_sagas_are_compared_from_the_page_of_one(window: Window) -> None:
    await window.open("/saga/declined")
    await window.follow("Compare")
    assert window.path == "/compare?one=declined"
    await window.follow("completed")
    assert window.path == "/compare?one=declined&other=completed"
    rows = window.page.labelled("Events side by side").all("tbody tr")
    (parted,) = [each.text for each in rows if "PaymentFailed" in each.text]
    assert "PaymentTaken" in parted
    assert "another event" in parted
    assert len(window.page.all("tr.apart")) > 1
    assert "stage failed taken" in window.page.one(".states").text.partition("payment payment")[2]


async def test_a_saga_and_itself_do_not_differ(window: Window) -> None:
    await window.open("/compare?one=declined&other=declined")
    assert "both have the same" in window.text
    assert window.page.all(".states .diff") + window.page.all(".compare details") == []


async def test_a_key_that_is_not_there_is_named(window: Window) -> None:
    await window.open("/compare?one=declined&other=nothing")
    assert "nothing" in window.alert
    assert window.page.one("[name=other]")["value"] == "nothing"
