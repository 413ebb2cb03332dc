"""What is kept of an error: one class decides, and where personal data may have been seen it keeps no text."""

import ast
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlib.cli import run
from eventlib.errors import LogUnavailable
from eventlib.model.kept_error import KeptError
from eventlib.telemetry.logs import JsonFormatter, TextFormatter

ROOT = Path(__file__).parents[2]
NAME = "Ada Lovelace"
NOT_KEPT = {
    "external": "of events of others, which have no personal fields",
    "fork_pool": "raised in another process",
    "plain": "of a schema",
    "project": "of an import",
    "remote_registry": "of a connection to the registry",
    "topic": "of a key, which is in plain text",
    "tracer": "of spans, which have ids and no more",
}
"""Modules that write an error's type and text themselves, and why nothing personal is kept by that."""


class Unreadable(Exception):
    def __str__(self) -> str:
        raise RuntimeError(NAME)


def fail(error: Exception) -> None:
    error.add_note(f"seen: {NAME}")
    raise error from KeyError(NAME)


def failing(error: Exception) -> Exception:
    with pytest.raises(type(error)) as caught:
        fail(error)
    return caught.value


@pytest.mark.parametrize("error", [ValueError(NAME), ExceptionGroup(NAME, [ValueError(NAME)]), Unreadable()])
def test_of_an_error_that_may_quote_a_person_its_type_and_place_are_kept(error: Exception) -> None:
    kept = KeptError.of(failing(error), personal=True, during="a deadline")
    assert kept.reason == f"a deadline: {type(error).__name__}: its text is withheld, since it may quote personal data"
    assert NAME not in kept.traceback
    assert "raise error from KeyError(NAME)" in kept.traceback
    assert (NAME in KeptError.of(failing(error), personal=False).traceback) is True


def test_an_error_that_cannot_describe_itself_is_kept() -> None:
    assert KeptError.of(Unreadable(), personal=False).reason.endswith("since its __str__ raises")
    assert KeptError.of(ValueError("x" * 9_000 + "\n"), personal=False).shortened.reason.endswith("x …")


@pytest.mark.parametrize("form", ["text", "json"])
def test_what_others_log_of_errors_is_without_their_texts(form: str) -> None:
    def line(personal: bool, name: str, message: str, *args: object, error: Exception | None = None) -> str:
        found = None if error is None else (type(error), error, error.__traceback__)
        record = logging.LogRecord(name, logging.ERROR, "f.py", 1, message, args, found)
        form_of = JsonFormatter(personal=personal) if form == "json" else TextFormatter(personal=personal)
        return form_of.format(record)

    error = failing(ValueError(NAME))
    for personal in (False, True):
        shown = [
            line(personal, "uvicorn.error", "Exception in ASGI application\n", error=error),
            line(personal, "asyncio", f"Task exception was never retrieved\nfuture: {error!r}", error=error),
            line(personal, "faust", "Crashed reason=%r", error),
        ]
        assert [NAME in each for each in shown] == [not personal] * 3
        assert all("ValueError" in each for each in shown)
        assert "log x is away" in line(personal, "eventlib.x", "cannot go on: %s", LogUnavailable("log x is away"))


@pytest.mark.parametrize("shows_where", [False, True])
def test_a_server_that_ends_with_an_error_quotes_no_person(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], shows_where: bool
) -> None:
    def fall_over(_: object) -> None:
        raise failing(ValueError(NAME))

    handler = logging.StreamHandler()
    handler.setFormatter(TextFormatter(personal=True))
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
    monkeypatch.setattr("eventlib.cli.check.load_choreography", fall_over)
    monkeypatch.setenv("EVENTLIB_TRACEBACK", "1" if shows_where else "0")
    assert run(["check"]) == 1
    told = capsys.readouterr().err
    assert (NAME in told, "ValueError: its text is withheld" in told) == (False, True)
    assert ("in fall_over" in told) is shows_where


def texts_of_errors() -> Iterator[str]:
    """Yield the modules in which a text has the type of something, and the thing itself, or which log a traceback."""
    for path in (path for package in ("analytics", "eventlib") for path in (ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            is_text = isinstance(node, ast.JoinedStr) and any(
                {f"type({value}).__name__", value}
                <= {ast.unparse(each.value) for each in node.values if isinstance(each, ast.FormattedValue)}
                for value in ("error", "raised", "what", "failure", "exc", "e")
            )
            if is_text or (isinstance(node, ast.Call) and ast.unparse(node.func).endswith("_log.exception")):
                yield path.stem


def test_no_other_code_writes_what_is_kept_of_an_error() -> None:
    assert {*texts_of_errors()} <= {*NOT_KEPT}
