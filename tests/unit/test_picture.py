"""A choreography's picture: what is in it, and as Mermaid, DOT and SVG."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from eventlib import Choreography
from eventlib.analysis.diagram.building import picture
from eventlib.analysis.diagram.model import Arrow, Lane, Picture, Traffic, duration, number
from eventlib.analysis.diagram.svg import svg
from eventlib.analysis.diagram.text import dot, mermaid
from examples import loyalty
from services import shop
from tests.apps.planted import (
    CANCELLABLE,
    REFUNDING,
    RELEASING,
    ChargeRequested,
    Declined,
    Done,
    Paid,
    Placed,
    Submitted,
)
from tests.apps.wired import Asks, Emits, Wired, choreography

DRAWN = Path("docs/shop.svg")
HERE = Path(__file__).parents[2]

PAYING = choreography(
    order={Submitted: [Placed], Paid: [Done], Declined: [Done]},
    payment=Wired({Placed: [ChargeRequested]}, {ChargeRequested: Asks([Paid, Declined])}, overdue=[Declined]),
)
FLOWCHART = """\
flowchart LR
  subgraph lane_outside["outside"]
    Submitted(["Submitted"]):::step
  end
  subgraph lane_order["order"]
    Placed["Placed"]:::step
    Done[["Done"]]:::step
  end
  subgraph lane_payment["payment"]
    ChargeRequested["ChargeRequested"]:::step
    Declined["Declined"]:::failure
    Paid["Paid"]:::step
    effect_payment_ChargeRequested{{"ask"}}:::step
    deadline_payment_overdue_at>"overdue_at"]:::step
  end
  Submitted --> Placed
  Paid --> Done
  Declined --> Done
  Placed --> ChargeRequested
  ChargeRequested --> effect_payment_ChargeRequested
  effect_payment_ChargeRequested --> Paid
  effect_payment_ChargeRequested --> Declined
  deadline_payment_overdue_at --> Declined
"""


def arrows(of: Choreography) -> dict[tuple[str, str], str]:
    return {(arrow.source, arrow.target): arrow.role for arrow in picture(of).arrows}


def test_an_effect_stands_between_its_request_and_its_answers() -> None:
    assert arrows(PAYING) == {
        ("Submitted", "Placed"): "step",
        ("Paid", "Done"): "step",
        ("Declined", "Done"): "step",
        ("Placed", "ChargeRequested"): "step",
        ("ChargeRequested", "effect/payment/ChargeRequested"): "step",
        ("effect/payment/ChargeRequested", "Paid"): "step",
        ("effect/payment/ChargeRequested", "Declined"): "failure",
        ("deadline/payment/overdue_at", "Declined"): "failure",
    }


def test_what_undoes_is_told_from_steps_forward() -> None:
    found = arrows(choreography(order=CANCELLABLE, stock=RELEASING, payment=REFUNDING))
    assert found["Reserved", "ChargeRequested"] == "step"
    assert found["effect/payment/ChargeRequested", "Declined"] == "failure"
    assert found["Declined", "Released"] == "compensation"
    assert found["Cancelled", "RefundRequested"] == "compensation"
    assert found["RefundRequested", "effect/payment/RefundRequested"] == "compensation"


def test_nodes_stand_with_who_says_them_and_effects_with_the_outside_world() -> None:
    lanes = {node.id: node.lane for node in picture(shop).nodes}
    assert lanes["OrderSubmitted"] == Lane(None, "outside")
    assert lanes["LineReserved"] == Lane("stock", "shelf")
    assert lanes["CancelRefused"] == Lane("dispatch", "shipment")  # order says it too, but the topic is dispatch's
    assert lanes["effect/payment/ChargeRequested"] == Lane(None, "gateway")
    assert [lane.name for lane in picture(shop).lanes] == [
        *("outside", "order", "shelf", "reservation", "delivery", "payment", "gateway", "shipment", "carrier")
    ]


def test_who_only_listens_is_shown_as_well() -> None:
    found = picture(loyalty.app)
    assert ("PointsEarned", "listener/account") in {(arrow.source, arrow.target) for arrow in found.arrows}
    counted = found.counted("", {"PointsEarned": 7}, {})
    assert counted.label(Arrow("PointsEarned", "listener/account", "step", "")) == "7"


def test_a_flowchart_for_mermaid() -> None:
    text = mermaid(picture(PAYING))
    assert text.startswith(FLOWCHART)
    assert "linkStyle 6,7,9 stroke:#c62828" in text


def test_dashes_and_traffic_in_mermaid_and_dot() -> None:
    shown = picture(choreography(order=CANCELLABLE, stock=RELEASING, payment=REFUNDING))
    shown = shown.counted("", {}, {("Declined", "Released"): Traffic(12_345, 1_234)})
    assert '  Declined -.->|"12,345 · 1.23 s"| Released\n' in mermaid(shown)
    assert '"Declined" -> "Released" [color="#c2600c", style=dashed, label="12,345 · 1.23 s"]' in dot(shown)
    assert "  Submitted --> Placed\n" in mermaid(shown)


def test_deciders_of_a_service_are_grouped() -> None:
    assert 'subgraph lane_stock_shelf["shelf"]' in mermaid(picture(shop))
    text = dot(picture(shop))
    assert 'subgraph "cluster_stock_shelf" { label="shelf"' in text
    assert text.count("{") == text.count("}")
    assert (
        '"OrderCancelled" [label="OrderCancelled", shape=box, fillcolor="#fff5e9", color="#c2600c", peripheries=2]'
        in text
    )


@pytest.mark.parametrize("of", [shop, loyalty.app, PAYING], ids=lambda each: each.name)
def test_a_drawing_names_every_node(of: Choreography) -> None:
    shown = picture(of)
    drawn = ET.fromstring(svg(shown))  # noqa: S314  our own
    space = "{http://www.w3.org/2000/svg}"
    nodes = [group for group in drawn.iter(f"{space}g") if group.get("class", "").startswith("node ")]
    titles = [title.text or "" for group in nodes for title in group.findall(f"{space}title")]
    assert [title.split("\n")[0] for title in titles] == [node.label for node in shown.nodes]
    labels = ["".join(text.text or "" for text in group.findall(f"{space}text")) for group in nodes]
    assert {node.label for node in shown.nodes} <= set(labels)
    paths = [path for path in drawn.iter(f"{space}path") if path.get("class", "").startswith("arrow ")]
    assert len(paths) == len(shown.arrows) + 3  # and the legend's


def test_a_drawing_shows_what_was_counted_and_pales_what_never_was() -> None:
    shown = picture(PAYING).counted("on a log", {"Submitted": 9}, {("Submitted", "Placed"): Traffic(9, 40)})
    drawn = svg(shown)
    assert ">9 · 40 ms</text>" in drawn
    assert drawn.count('class="arrow step never"') == 5
    assert ">on a log</text>" in drawn


def test_names_that_xml_or_mermaid_would_misread() -> None:
    lane = Lane(None, "<&>")
    odd = Picture('a "b" <c>', "&", (lane,), picture(PAYING).nodes, picture(PAYING).arrows)
    drawn = svg(Picture(odd.title, odd.subtitle, picture(PAYING).lanes, odd.nodes, odd.arrows))
    assert len(ET.fromstring(drawn))  # noqa: S314  our own
    assert dot(odd).startswith('digraph "a \\"b\\" <c>" {')


def test_what_nobody_says_is_drawn_outside() -> None:
    planted = picture(choreography(order=Wired({Submitted: [Done]}, {ChargeRequested: Asks([Paid])})))
    lanes = {node.id: (node.lane.name, node.kind) for node in planted.nodes}
    assert lanes["ChargeRequested"] == ("outside", "event")
    assert ET.fromstring(svg(planted)) is not None  # noqa: S314  our own


def test_an_empty_picture_is_one() -> None:
    emits: Emits = {Submitted: [Done]}
    empty = Picture("nothing", "", (), (), ())
    assert ET.fromstring(svg(empty)) is not None  # noqa: S314  our own
    assert mermaid(empty).startswith("flowchart LR\n")
    assert picture(choreography(order=emits)).nodes


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "0 ms"), (999, "999 ms"), (1_000, "1 s"), (12_345, "12.3 s"), (150_000, "2.5 min"), (9e6, "2.5 h")],
)
def test_durations_fit_on_an_arrow(milliseconds: float, text: str) -> None:
    assert duration(int(milliseconds)) == text


def test_counts_fit_on_an_arrow() -> None:
    assert [number(n) for n in (0, 204_168, 1_234_567)] == ["0", "204,168", "1.235M"]
    assert duration(10 * 86_400_000) == "10 d"


def test_the_drawing_beside_the_code_is_the_shops() -> None:
    renew = f"renew it with `eventlib graph --out {DRAWN}`"
    assert (HERE / DRAWN).read_text(encoding="utf-8") == svg(picture(shop)), renew


def test_the_drawing_is_the_same_each_time() -> None:
    assert svg(picture(shop)) == svg(picture(shop))
    assert json.dumps(re.findall(r'd="(.*?)"', svg(picture(shop)))) == json.dumps(
        re.findall(r'd="(.*?)"', svg(picture(shop)))
    )
