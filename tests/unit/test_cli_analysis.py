"""`eventlib check` and `graph` without a log: findings, what is accepted, and drawings in each format."""

import json
from pathlib import Path

import pytest

from eventlib.cli import run
from tests.unit.faulty_app import APP, Refused


@pytest.mark.usefixtures("project")
def test_check_ends_with_1_when_there_are_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check"]) == 1
    shown = capsys.readouterr().out
    assert "Heard" in shown
    assert "2 errors, 0 warnings." in shown


def test_warnings_end_with_0_unless_they_are_to_count(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = APP.replace('topic="t", key="k")', 'topic="t", key="k", request=True)')
    source = source.replace('topic="u", key="k")', 'topic="u", key="k", final=True)')
    source = source.replace("import Choreography", "import Choreography, Retry")
    effect = "@talker.effect(Said, retry=Retry(attempts=5))\nasync def ask(said: Said) -> Ended:\n    return Ended(k=said.k)\n"
    ended = 'class Ended(Event, topic="u", key="k", final=True):\n    k: str\n\n'
    (project / "tired.py").write_text(source.replace("app =", f"{ended}{effect}app ="))
    assert run(["check", "--app", "tired:app"]) == 0
    shown = capsys.readouterr().out
    assert "effect-gives-up  Said  talk/talker.ask" in shown
    assert "0 errors, 1 warning." in shown
    assert run(["check", "--app", "tired:app", "--strict"]) == 1


def test_what_is_accepted_is_shown_with_its_reason(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    accepting = """
from eventlib.model.finding import Accepted
from faulty import app as found
app = found.extended("accepting", accepts=[
    Accepted("handler-without-source", "Heard", "a bridge says it"),
    Accepted("event-without-handler", "Said", "a bridge handles it"),
])
"""
    (project / "accepting.py").write_text(accepting)
    assert run(["check", "--app", "accepting:app", "--strict"]) == 0
    shown = capsys.readouterr().out
    assert "because a bridge says it" in shown
    assert "accepting is well wired: 1 service, 1 decider, 2 events" in shown
    assert "0 errors, 0 warnings, 2 accepted." in shown


@pytest.mark.usefixtures("project")
def test_check_as_json_prints_a_finding_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--json"]) == 1
    findings = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {finding["rule"] for finding in findings} == {"handler-without-source", "event-without-handler"}


def test_the_shop_is_well_wired(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--app", "services:shop"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("shop is well wired")
    assert second.startswith("A failure can follow")


def test_the_graph_of_the_shop(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["graph", "--app", "services:shop"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "flowchart LR"
    assert 'subgraph lane_stock["stock"]' in lines
    assert "DeliverySubmitted --> StockReceived" in lines
    assert "DispatchFailed -.-> RefundRequested" in lines
    assert "effect_payment_RefundRequested -.-> PaymentRefunded" in lines


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("arguments", "begins"),
    [
        (["--format", "dot"], 'digraph "faulty" {'),
        (["--format", "svg"], "<svg "),
        (["--json"], '{"title":"faulty"'),
        (["-o", "x.svg"], "<svg "),
        (["-o", "x.gv"], "digraph"),
        (["-o", "x.json"], '{"title"'),
        (["-o", "x.mmd"], "flowchart LR\n"),
        (["-o", "x.svg", "-f", "dot"], "digraph"),
    ],
)
def test_a_graph_in_each_format(arguments: list[str], begins: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["graph", *arguments]) == 0
    printed = capsys.readouterr().out
    written = [path.read_text() for path in Path().glob("x.*")]
    assert [printed, *written][-1].startswith(begins)
    assert bool(written) != bool(printed)


@pytest.mark.usefixtures("project")
def test_a_graph_that_cannot_be_written(refused: Refused) -> None:
    assert "leave one out" in refused("graph", "--json", "--format", "dot", code=2)
    assert "nowhere/x.svg" in refused("graph", "--out", "nowhere/x.svg")
    assert "is not one of" in refused("graph", "--format", "png", code=2)


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("arguments", [["--log"], ["--log", "--json"], ["-f", "svg", "--log"]])
def test_a_graph_counts_on_the_log_that_all_commands_look_at(refused: Refused, arguments: list[str]) -> None:
    assert "there is no log at var/faulty.db" in refused("graph", *arguments)


@pytest.mark.usefixtures("project")
def test_a_graph_counts_on_a_log_that_is_named(refused: Refused) -> None:
    assert "there is no log at other.db" in refused("graph", "--log", "sqlite:///other.db")
    assert "there is no log at other.db" in refused("graph", "--log=sqlite:///other.db", "--json")
    assert "there is no log at other.db" in refused("--log", "sqlite:///other.db", "graph")
