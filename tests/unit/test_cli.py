"""The command line without a log: options, finding the application, and one sentence for whatever is wrong."""

import subprocess
import sys
from pathlib import Path

import pytest

import eventlib
from eventlib import Choreography
from eventlib.cli import run
from eventlib.cli.app import PANELS, LazyCommand, as_of_now
from eventlib.ground.url import log_file
from tests.unit.faulty_app import APP, Refused

COMMANDS = ["run", "topics", "tail", "saga", "state", "check", "graph", "publish", "new"]


@pytest.mark.parametrize("command", [*COMMANDS, "parked list", "parked show", "parked retry"])
def test_help_has_an_example_for_each_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
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
    assert [name for name in [*COMMANDS, "history", "replay", "parked"] if name not in shown] == []


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


@pytest.mark.parametrize(
    "command",
    [["topics"], ["tail"], ["saga", "1"], ["state", "talker", "1"], ["parked", "list"], ["parked", "retry", "--all"]],
)
def test_looking_at_a_log_that_is_not_there_makes_none(project: Path, refused: Refused, command: list[str]) -> None:
    assert "there is no log at var/faulty.db: `eventlib run` makes one" in refused(*command)
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
    of_others = "found += [name for name in ('eventlib.runtime.runtime',) if name in sys.modules]"
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


@pytest.mark.usefixtures("project")
def test_names_nearly_right_are_suggested(refused: Refused) -> None:
    assert (
        refused("publish", "Sayd", "--data", "{}")
        == "there is no event 'Sayd'; did you mean Said? known are Heard, Said"
    )
    assert "there is no service 'talc'; did you mean talk?" in refused("run", "--service", "talc")


def test_a_command_names_its_own_extra_whichever_package_is_missing(
    refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [
        each for each in sys.modules if each.startswith(("eventlib.cli.console", "eventlib.console.", "fastapi"))
    ]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    assert refused("console") == "this needs the package fastapi: pip install 'eventlib-sagas[console]'"


@pytest.mark.parametrize("name", ["shop", "gift cards", "a/b", "Läden"])
def test_the_default_log_is_a_file_with_the_choreographys_name(name: str) -> None:
    made = Choreography(name, [])
    assert log_file(made.default_log) == Path("var") / {"gift cards": "gift-cards.db", "a/b": "a-b.db"}.get(
        name, f"{name}.db"
    )
    assert made.extended("more").default_log == made.default_log


def test_without_a_log_and_an_application_both_are_asked_for(
    tmp_path: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EVENTLIB_LOG", raising=False)
    assert refused("pack").startswith("no log is named: give --log or set EVENTLIB_LOG")


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("diff main --json", "prove diff main --json"),
        ("corpus cut --out there", "prove corpus --out there"),
        ("prove --deploy --against main", "prove deploy --against main"),
        ("prove --in-flight", "prove in-flight"),
        ("prove in-flight", "prove in-flight"),
        ("replay --key 536365 --break-at=e1 -d order", "debug -d order 536365 e1"),
        ("replay -k=536365 --break-at e1", "debug 536365 e1"),
        ("replay --in-flight", "replay --in-flight"),
        ("rerun rerun --into again --follow", "rerun begin rerun --follow again"),
        ("rerun order --switch=again --reason mended", "rerun switch order --reason mended again"),
        ("rerun order --drop again --yes", "rerun drop order again"),
        ("rerun --list", "rerun list"),
        ("rerun drop order again", "rerun drop order again"),
    ],
)
def test_a_command_of_an_earlier_release_is_run_as_what_it_is_now(
    before: str, now: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert as_of_now(before.split()) == now.split()
    assert ("` now\n" in capsys.readouterr().err) is (before != now)


def test_the_new_name_of_a_command_is_told_and_nothing_else_differs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diff", "--help"]) == 0
    printed = capsys.readouterr()
    assert printed.err == "`eventlib diff` is `eventlib prove diff` now\n"
    assert run(["prove", "diff", "--help"]) == 0
    assert capsys.readouterr().out == printed.out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script_and_the_words_that_fit(
    shell: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def completed(instruction: str, words: str = "") -> str:
        monkeypatch.setenv("_EVENTLIB_COMPLETE", f"{instruction}_{shell}")
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
        monkeypatch.setenv("_TYPER_COMPLETE_ARGS", words)
        monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
        with pytest.raises(SystemExit):
            run([])
        return capsys.readouterr().out

    assert "eventlib" in completed("source")
    assert "bisect" in completed("complete", "eventlib prove bis")
    assert "--reason-matches" in completed("complete", "eventlib parked list --reas")
    assert completed("complete", "eventlib run --service x").strip() in {"", "_files"}
