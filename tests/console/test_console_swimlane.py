"""The picture of a saga: to scale, with long waits cut out, folded, and without a label over another; and where its page begins."""

from itertools import pairwise
from random import Random

import pytest

from eventlib.console.saga_page import EffectLine, what_matters
from eventlib.console.swimlane import Axis, Scale, Swimlane, swimlane
from eventlib.model.record import Record
from eventlib.model.saga import Saga, saga_of
from tests.console.rates_app import app
from tests.console.windows import Window

HOUR_MS = 3_600_000
SERVICES = ("order", "stock", "payment")


def saga(*events: tuple[int, str, str]) -> Saga:
    """Return a saga of events: the time, the service and the type of each."""
    records = [
        Record("asked", 0, at, at_ms, b"k", b"", id=f"e{at}", type=name, source=f"{service}/{service}")
        for at, (at_ms, service, name) in enumerate(events)
    ]
    return saga_of("k", [(record, None) for record in records], app)


def drawn(saga: Saga, scale: Scale = "time", *, fold: bool = True, until_ms: int = 0) -> Swimlane:
    return swimlane(saga, app, scale, until_ms or saga.events[-1].after_ms, fold=fold)


def test_a_wait_beside_which_all_else_would_be_a_dot_is_cut_and_has_its_length() -> None:
    picture = drawn(saga(*((at // 4, "order", f"E{at}") for at in range(20))), until_ms=2 * HOUR_MS)
    ((left, right, ms),) = picture.cuts
    assert ms == 2 * HOUR_MS - 4
    xs = sorted({mark.x for mark in picture.marks})
    steps = {round(after - before, 3) for before, after in pairwise(xs)}
    assert len(xs) == 5
    assert len(steps) == 1, "the rest is to scale"
    assert min(steps) > right - left, "and has the room"


@pytest.mark.parametrize("times", [[0, 7, 97, 145, 163, 214], [0, HOUR_MS], [5, 5, 5], [0], [0, 1_000, 1_900, 9_000]])
def test_what_can_be_read_to_scale_is_not_cut(times: list[int]) -> None:
    axis = Axis(times)
    assert axis.cuts == []
    scale = (axis.at(max(*times, times[0] + 1)) - axis.at(times[0])) / max(max(times) - times[0], 1)
    for ms in times:
        assert axis.at(ms) - axis.at(times[0]) == pytest.approx(scale * (ms - times[0]))


def test_bursts_at_equal_distances_are_to_scale_however_many() -> None:
    times = [minute * 60_000 + ms for minute in range(50) for ms in (0, 1, 2)]
    assert Axis(times).cuts == []


@pytest.mark.parametrize("scale", ["time", "steps"])
@pytest.mark.parametrize("fold", [True, False])
def test_no_label_is_over_another_among_400_events(scale: Scale, fold: bool) -> None:
    random = Random(7)
    at_ms, events = 0, list[tuple[int, str, str]]()
    for _ in range(400):
        at_ms += random.choice((0, 0, 0, 1, 5, 40, 90_000))
        events.append((at_ms, random.choice(SERVICES), random.choice(("Asked", "LineReleaseRequested", "注文確定"))))
    picture = drawn(saga(*events), scale, fold=fold)
    for lane in picture.lanes:
        for row in {label.row for label in lane.labels}:
            widths = [(label, 6 * len(label.text)) for label in lane.labels if label.row == row]
            places = [(each.x - width, each.x) if each.is_end else (each.x, each.x + width) for each, width in widths]
            assert all(end <= begin for (_, end), (begin, _) in pairwise(sorted(places)))
            assert min(places)[0] >= 0
            assert max(end for _, end in places) <= picture.width
    bottoms = [(lane.top, lane.top + lane.height) for lane in picture.lanes]
    assert all(bottom == top for (_, bottom), (top, _) in pairwise(bottoms))
    assert all(0 <= mark.x <= picture.width for mark in picture.marks)


def test_equal_events_are_one_mark_with_their_number() -> None:
    asked = saga((0, "order", "Placed"), *((1 + at, "stock", "Asked") for at in range(200)), (500, "order", "Placed"))
    picture = drawn(asked)
    assert [(mark.fold.first.number, mark.fold.last.number) for mark in picture.marks] == [(1, 1), (2, 201), (202, 202)]
    assert picture.marks[1].end > picture.marks[1].x
    assert [label.text for lane in picture.lanes for label in lane.labels] == ["Placed", "Placed", "Asked ×200"]  # noqa: RUF001  the sign for "times"
    assert len(drawn(asked, fold=False).marks) == 202


def test_a_page_begins_at_what_is_parked_else_asked_else_at_the_end() -> None:
    open_ = saga((0, "order", "Placed"), (1, "order", "Asked"), (2, "order", "Noted"))
    effect = EffectLine(open_.events[1], "port", None, None, None, None)
    assert what_matters(open_, {"e0"}, [effect], is_overdue=True) == (1, "parked")
    assert what_matters(open_, (), [effect], is_overdue=True) == (2, "not answered yet")
    assert what_matters(open_, (), [], is_overdue=True) == (3, "overdue since")
    assert what_matters(open_, (), [], is_overdue=False) == (3, "the last so far")


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(
    ("key", "number", "shows"),
    [
        ("declined", "7", "after event 7 of 11: the first failure"),
        ("broken", "6", "now, after all 6: parked"),
        ("completed", "12", "now, after all 12: the end"),
        ("garbled", "1", "now, after all 1: parked"),
    ],
)
async def test_a_page_opens_at_what_matters_with_its_detail(window: Window, key: str, number: str, shows: str) -> None:
    await window.open(f"/saga/{key}")
    assert window.page.one("#moment-number").text == shows
    row = window.page.one("tr.now-at")
    assert row["data-number"] == number
    detail = row.one("details[open]")
    assert (await window.part(detail)).all("pre.json")
    assert window.page.one(".mark.now-at")["data-number"] == row["data-number"]
    await window.open(f"/saga/{key}?scale=steps&at=1")
    assert window.page.one("tr.now-at")["data-number"] == "1"
    assert window.page.one(".segmented [aria-current]").text == "Step by step"


@pytest.mark.asyncio(loop_scope="session")
async def test_what_is_folded_in_the_list_is_folded_in_the_picture(window: Window) -> None:
    await window.open("/saga/large")
    rows, marks = window.page.all("tr[data-last]"), window.page.all(".mark")
    assert sorted((each["data-number"], each["data-last"]) for each in marks) == sorted(
        (each["data-number"], each["data-last"]) for each in rows
    )
    assert any(each["data-label"] == "LineRequested ×12" for each in marks)  # noqa: RUF001  the same
    await window.follow(f"Show all {rows[-1]['data-last']} lines")
    assert len(window.page.all(".mark")) == len(window.page.all("tr[data-last]")) == int(rows[-1]["data-last"])
