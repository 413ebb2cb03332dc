"""What `eventlib check` and `graph` say of sinks, subscribers and outboxes: what is asked for in vain, and where they stand."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from eventlib import ContractError, Event, WiringError
from eventlib.analysis.checks import check
from eventlib.analysis.connectors import Connector
from eventlib.analysis.diagram.building import picture
from eventlib.analysis.diagram.svg import svg
from eventlib.analysis.diagram.text import dot, mermaid
from eventlib.outbox import SqlAlchemyOutbox
from tests.apps.planted import Cancelled, CancelSubmitted, Done, Order, Placed, Submitted
from tests.apps.wired import choreography
from tests.commands import ended, said


class Colour(StrEnum):
    RED = "red"


class Shipped(Order, topic="orders", key="order_id", final=True):
    country: str
    parcels: int
    speed: Literal["slow", "fast"]
    colour: Colour
    note: Annotated[str, Field(max_length=9)] | None = None
    sizes: tuple[int, ...] = ()


class Wished(Order, topic="requests", key="order_id", request=True):
    """What no service handles."""


PLAYED = choreography(order={Submitted: [Done, Shipped], CancelSubmitted: [Done]})


def found(*consumers: Connector) -> set[tuple[str, str]]:
    return {(each.rule, each.subject) for each in check(PLAYED, (), consumers)}


def subscriber(*events: type[Event], **where: str | int | bool) -> Connector:
    return Connector("webhook", "billing", events, where)


def test_an_event_that_no_service_emits_never_comes_to_a_consumer() -> None:
    assert found(subscriber(Done, Cancelled), Connector("sink", "reports", (Placed, Submitted))) == {
        ("consumer-without-source", "billing: Cancelled"),
        ("consumer-without-source", "reports: Placed"),
    }


@pytest.mark.parametrize(
    ("field", "can", "cannot"),
    [
        ("country", "France", 3),
        ("parcels", 3, "3"),
        ("speed", "fast", "faster"),
        ("colour", "red", "blue"),
        ("note", "fragile", 3),
        ("sizes", "(3,)", 3),
    ],
)
def test_a_filter_that_nothing_can_match(field: str, can: str | int, cannot: str | int) -> None:
    assert found(subscriber(Shipped, **{field: can})) == set()
    assert found(subscriber(Shipped, **{field: cannot})) == {("filter-without-match", "billing: Shipped")}


def test_a_filter_on_a_field_that_only_others_have() -> None:
    assert found(subscriber(Shipped, Done, country="France")) == {("filter-without-match", "billing: Done")}
    of_all = Connector("webhook", "billing", (Shipped, Done), {"country": "France"}, asks_for_all=True)
    assert found(of_all) == set()
    assert found(Connector("webhook", "billing", (Shipped, Done), {"country": 3}, asks_for_all=True)) == {
        ("filter-without-match", "billing: *")
    }


def test_a_sink_without_a_table() -> None:
    assert found(Connector("sink", "reports", (Done,), tables=0)) == {("sink-without-table", "reports")}
    assert found(Connector("sink", "reports", (Done,), tables=1), Connector("sink", "inbox", (Done,))) == set()


def outbox(*events: type[Event]) -> Connector:
    return Connector("outbox", "checkout", events)


def test_an_outbox_stands_before_what_it_puts() -> None:
    shown = picture(PLAYED, [outbox(Submitted)])
    (arrow,) = (each for each in shown.arrows if each.source == "outbox/checkout")
    assert arrow.target == "Submitted"
    assert shown.lanes[0].name == "outboxes"
    assert "outboxes (outside world)" in mermaid(shown)
    counted = shown.counted("on a log", {"Submitted": 9}, {})
    assert counted.is_gone(arrow), "the log does not say that nothing came from it"
    assert counted.label(arrow) == ""


def test_an_outbox_refuses_what_deciders_emit_what_nothing_handles_and_what_it_does_not_declare() -> None:
    with pytest.raises(WiringError, match=r"outbox checkout: puts\[1\]: Done is a fact that decider order emits"):
        SqlAlchemyOutbox(PLAYED, [Submitted, Done], name="checkout")
    with pytest.raises(WiringError, match=r"outbox checkout: puts\[0\]: .*Wished"):
        SqlAlchemyOutbox(PLAYED, [Wished], name="checkout")
    with pytest.raises(WiringError, match=r"name= 'a b': a name is made of letters"):
        SqlAlchemyOutbox(PLAYED, name="a b")
    with Session(create_engine("sqlite://")) as session, pytest.raises(ContractError, match="add it to puts="):
        SqlAlchemyOutbox(PLAYED, [Submitted], name="checkout").put(session, CancelSubmitted(order_id="o"))


def test_consumers_stand_behind_what_they_get() -> None:
    shown = picture(PLAYED, [subscriber(Shipped, country="France"), Connector("sink", "reports", (Done, Shipped))])
    assert {(arrow.source, arrow.target) for arrow in shown.arrows} >= {
        ("Shipped", "webhook/billing"),
        ("Done", "sink/reports"),
        ("Shipped", "sink/reports"),
    }
    assert [lane.name for lane in shown.lanes][-2:] == ["webhooks", "sinks"]
    assert "webhooks (outside world)" in mermaid(shown)
    assert '"Shipped" -> "webhook/billing"' in dot(shown)
    assert "country = &#x27;France&#x27;" in svg(shown)
    counted = shown.counted("on a log", {"Shipped": 9, "Done": 2}, {})
    assert counted.traffic is not None
    assert counted.traffic["Shipped", "webhook/billing"].count == 9


def test_commands_find_sinks_and_subscribers_by_options_and_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, sink = "tests.integration.outbox_app:APP", "tests.integration.sink_app:totals"
    put = "tests.integration.sink_app:outbox"
    subscribers = tmp_path / "webhooks.toml"
    subscribers.write_text(
        '[subscribers.billing]\nurl = "https://example.com"\nevents = ["Counted"]\nsecrets = ["env:NONE"]\n'
        'where = {number = "3"}\n'
    )
    checked = ended("check", "--app", app, "--sink", sink, "--subscribers", str(subscribers), "--json")
    assert checked.returncode == 1
    assert "webhook billing asks for Counted where number = '3', and none can have that" in checked.stdout
    assert "sink/totals" in said("graph", "--app", app, "--sink", sink, "--format", "dot")
    assert "outbox/answers" in said("graph", "--app", app, "--outbox", put, "--format", "dot")
    (tmp_path / "pyproject.toml").write_text(
        f'[tool.eventlib]\napp = "{app}"\nsinks = ["{sink}"]\noutboxes = ["{put}"]\n'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVENTLIB_WEBHOOKS", str(subscribers))
    shown = said("graph", "--format", "dot")
    assert "sink/totals" in shown
    assert "outbox/answers" in shown
    assert "webhook/billing" in shown
    (tmp_path / "pyproject.toml").write_text(f'[tool.eventlib]\napp = "{app}"\nsinks = "{sink}"\n')
    assert 'sinks is a list: write sinks = ["module:name"]' in ended("graph").stderr
