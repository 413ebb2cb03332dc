"""The command line without a log: options, finding the application, and one sentence for whatever is wrong."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import eventlib
from eventlib.cli import run
from eventlib.cli.app import PANELS, LazyCommand

Refused = Callable[..., str]

APP = """
from dataclasses import dataclass
from eventlib import Choreography, Decider, Event, Service

class Heard(Event, topic="t", key="k"):
    k: str

class Said(Event, topic="u", key="k"):
    k: str

@dataclass(frozen=True)
class State:
    count: int = 0

talker = Decider("talker", state=State, key="k")

@talker.on(Heard)
def answer(state: State, heard: Heard) -> list[Said]:
    return [Said(k=heard.k)]

app = Choreography("faulty", [Service("talk", deciders=[talker])])
other = 3
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of its own, with a faulty application in it, and nothing of this project's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EVENTLIB_LOG", raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "faulty", raising=False)  # that of another test
    (tmp_path / "faulty.py").write_text(APP)
    (tmp_path / "pyproject.toml").write_text('[tool.eventlib]\napp = "faulty:app"\n')
    return tmp_path


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Refused:
    """Run a command that must fail, and return its sentence."""

    def refuse(*arguments: str, code: int = 1) -> str:
        assert run(arguments) == code
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("eventlib: ")
        assert err.count("\n") == 1
        assert "Traceback" not in err
        return err.removeprefix("eventlib: ").strip()

    return refuse


def test_help_has_an_example_for_each_command(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (
        "run",
        "topics",
        "tail",
        "saga",
        "state",
        "parked list",
        "parked show",
        "parked retry",
        "check",
        "graph",
        "publish",
        "new",
    ):
        assert run([*command.split(), "--help"]) == 0
        assert f"eventlib {command}" in capsys.readouterr().out.replace("Usage:", "").split("Example", 1)[1]


def test_without_its_script_it_is_a_module() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "eventlib", "check", "--help"], check=True, capture_output=True, text=True
    )
    assert "eventlib check" in shown.stdout


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-h"]) == 0
    shown = capsys.readouterr().out
    assert all(
        name in shown
        for name in (
            "run",
            "topics",
            "tail",
            "saga",
            "state",
            "history",
            "replay",
            "parked",
            "check",
            "graph",
            "publish",
            "new",
        )
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["sgaa"], "no such command 'sgaa'"),
        (["tail", "--form", "latest"], "no such option: --form"),
        (["state", "order"], "missing argument 'KEY'"),
        (["tail", "--from", "yesterday"], "'yesterday' is no place to start: write earliest, latest, an offset"),
        (["tail", "--from", "-3"], "'-3' is no place to start"),
        (["parked", "retry", "order"], "name both, or give --all"),
        (["parked", "retry", "order", "1", "--all"], "it excludes DECIDER and KEY"),
    ],
)
def test_wrong_usage_ends_with_2_and_points_to_help(refused: Refused, arguments: list[str], sentence: str) -> None:
    said = refused(*arguments, code=2)
    assert sentence in said
    assert "--help`)" in said


@pytest.mark.parametrize(
    ("app", "sentence"),
    [
        ("faulty", "'faulty' does not name its choreography"),
        ("faulty:", "'faulty:' does not name its choreography"),
        ("faulty:nobody", "module faulty has no 'nobody'"),
        ("faulty:other", "is a int, not a Choreography"),
        ("absent:app", "there is no module 'absent' here"),
    ],
)
@pytest.mark.usefixtures("project")
def test_an_application_that_is_not_there(refused: Refused, app: str, sentence: str) -> None:
    assert sentence in refused("check", "--app", app)
    assert sentence in refused("--app", app, "check")


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("import nowhere_to_be_found", "No module named 'nowhere_to_be_found'; is it installed?"),
        ("1 / 0", "broken.py:1): ZeroDivisionError: division by zero; fix it there"),
        ("def (", "broken.py:1): SyntaxError"),
        ("from eventlib import Event\nclass A(Event): ...", "is wired wrongly"),
    ],
)
def test_an_application_that_cannot_be_imported(project: Path, refused: Refused, source: str, sentence: str) -> None:
    (project / "broken.py").write_text(source)
    assert sentence in refused("check", "--app", "broken:app")


def test_no_application_named(project: Path, refused: Refused) -> None:
    (project / "pyproject.toml").unlink()
    assert 'write [tool.eventlib] app = "module:name" into pyproject.toml' in refused("check")


def test_a_pyproject_that_is_no_toml(project: Path, refused: Refused) -> None:
    (project / "pyproject.toml").write_text("[tool")
    assert "is not valid TOML" in refused("check")


def test_the_application_is_found_from_a_directory_below(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "below").mkdir()
    (project / "below" / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    monkeypatch.chdir(project / "below")
    assert run(["graph"]) == 0
    assert "  Heard --> Said\n" in capsys.readouterr().out


@pytest.mark.usefixtures("project")
def test_check_ends_with_1_when_there_are_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check"]) == 1
    shown = capsys.readouterr().out
    assert "Heard" in shown
    assert "2 errors, 0 warnings." in shown


def test_warnings_end_with_0_unless_they_are_to_count(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = APP.replace('topic="t", key="k")', 'topic="t", key="k", request=True)')
    source = source.replace('topic="u", key="k")', 'topic="u", key="k", final=True)')
    effect = "@talker.effect(Said)\nasync def ask(said: Said) -> Ended:\n    return Ended(k=said.k)\n"
    ended = 'class Ended(Event, topic="u", key="k", final=True):\n    k: str\n\n'
    (project / "tired.py").write_text(source.replace("app =", f"{ended}{effect}app ="))
    assert run(["check", "--app", "tired:app"]) == 0
    shown = capsys.readouterr().out
    assert "effect-gives-up  Said  talk/talker.ask" in shown
    assert "0 errors, 1 warning." in shown
    assert run(["check", "--app", "tired:app", "--strict"]) == 1


def test_what_is_accepted_is_shown_with_its_reason(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    accepting = """
from eventlib.analysis.finding import Accepted
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
    assert "shop is well wired" in capsys.readouterr().out


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
    assert "there is no log at var/shop.db" in refused("graph", *arguments)


@pytest.mark.usefixtures("project")
def test_a_graph_counts_on_a_log_that_is_named(refused: Refused) -> None:
    assert "there is no log at other.db" in refused("graph", "--log", "sqlite:///other.db")
    assert "there is no log at other.db" in refused("graph", "--log=sqlite:///other.db", "--json")
    assert "there is no log at other.db" in refused("--log", "sqlite:///other.db", "graph")


@pytest.mark.parametrize(
    "command",
    [["topics"], ["tail"], ["saga", "1"], ["state", "talker", "1"], ["parked", "list"], ["parked", "retry", "--all"]],
)
def test_looking_at_a_log_that_is_not_there_makes_none(project: Path, refused: Refused, command: list[str]) -> None:
    assert "there is no log at var/shop.db: `eventlib run` makes one" in refused(*command)
    assert "there is no log at other.db" in refused(*command, "--log", "sqlite:///other.db")
    assert "there is no log at before.db" in refused("--log", "sqlite:///before.db", *command)
    assert sorted(path.name for path in project.iterdir() if path.suffix == ".db") == []


def test_the_environment_names_the_log(project: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENTLIB_LOG", f"sqlite:///{project}/env.db")
    assert f"there is no log at {project}/env.db" in refused("topics")


@pytest.mark.usefixtures("project")
def test_a_log_in_memory_cannot_be_looked_at(refused: Refused) -> None:
    assert "name a log file" in refused("topics", "--log", "memory://")


@pytest.mark.usefixtures("project")
def test_a_log_of_an_unknown_kind(refused: Refused) -> None:
    assert "bogus" in refused("topics", "--log", "bogus://here")


def test_a_log_that_is_no_log(project: Path, refused: Refused) -> None:
    (project / "text.db").write_text("not a database, but long enough to be looked at as one" * 40)
    assert "is not a log at all" in refused("topics", "--log", "sqlite:///text.db")


@pytest.mark.usefixtures("project")
def test_running_a_service_that_is_not_there(refused: Refused) -> None:
    assert refused("run", "--service", "nobody") == "there is no service 'nobody'; known are talk"


def test_running_effects_that_nobody_gives_a_port(project: Path, refused: Refused) -> None:
    effect = '@talker.effect(Said)\nasync def ask(said: Said, phone: object) -> Heard:\n    return Heard(k="1")\n'
    (project / "calling.py").write_text(APP.replace("app =", effect + "app ="))
    assert "no `ports=` factory provides phone" in refused("run", "--app", "calling:app")


def test_what_nobody_foresaw_is_a_sentence_too(monkeypatch: pytest.MonkeyPatch, refused: Refused) -> None:
    def fall_over(_: object) -> None:
        raise RuntimeError("out of luck")

    monkeypatch.setattr("eventlib.cli.check.load_choreography", fall_over)
    assert refused("check").startswith("unexpected error: RuntimeError: out of luck (EVENTLIB_TRACEBACK=1")


def test_ctrl_c_ends_quietly_with_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("eventlib.cli.check.load_choreography", interrupt)
    assert run(["check"]) == 130
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("sent", "code"), [(KeyboardInterrupt(), 130), (SystemExit(143), 143)])
def test_what_goes_wrong_while_it_cleans_up_after_a_signal_is_not_what_ended_it(
    sent: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(_: object) -> None:
        try:
            raise sent
        finally:
            raise ConnectionError("the other side takes no questions any more")

    monkeypatch.setattr("eventlib.cli.check.load_choreography", interrupt)
    assert run(["check"]) == code
    assert capsys.readouterr() == ("", "")


def test_a_command_does_not_load_what_only_others_need() -> None:
    heavy = ("pydantic", "asyncio", "sqlite3", "eventlib.model.event", "eventlib.model.saga")
    helped = f"import sys, eventlib.cli; eventlib.cli.run(['--help']); heavy = [*{heavy}]"
    loaded = "found = [name for name in heavy if name in sys.modules]; import eventlib.cli.saga"
    of_others = "found += [name for name in ('lark', 'eventlib.runtime.runtime') if name in sys.modules]"
    loaded = f"{helped}; {loaded}; {of_others}; sys.exit(repr(found or 0))"
    done = subprocess.run([sys.executable, "-c", loaded], check=False, capture_output=True, text=True)
    assert done.stderr == "0\n"


@pytest.mark.parametrize(("name", "command"), [each for commands in PANELS.values() for each in commands.items()])
def test_a_commands_summary_is_the_first_sentence_of_its_help(name: str, command: LazyCommand) -> None:
    assert command.load(name).help.partition("\n")[0] == command.summary


def test_every_public_name_is_there_when_it_is_asked_for() -> None:
    listed = "import eventlib; print(*(type(getattr(eventlib, name)).__name__ for name in eventlib.__all__))"
    done = subprocess.run([sys.executable, "-c", listed], check=True, capture_output=True, text=True)
    assert len(done.stdout.split()) == len(eventlib.__all__)
    with pytest.raises(AttributeError, match="module 'eventlib' has no attribute 'Decidr'"):
        getattr(eventlib, "Decidr")  # noqa: B009  a type checker would see it


@pytest.mark.parametrize("arguments", [[], ["parked"]])
def test_help_that_was_printed_is_enough(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    said = capsys.readouterr()
    assert "Usage" in said.out + said.err
    assert "eventlib: " not in said.err
