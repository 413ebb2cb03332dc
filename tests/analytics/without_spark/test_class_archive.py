"""The archive of Spark's classes is made once, when enough sessions have started; without it sessions start as well."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from analytics import class_archive
from eventlib.devtools.kafka.java import Java
from eventlib.ground.durable import alone

_JAVA = Java(Path("java"), 17, "17-abc")

Making = Callable[[Path], None]


def _makes(path: Path) -> None:
    path.write_bytes(b"classes")


def _cannot(_: Path) -> None:
    raise subprocess.TimeoutExpired("java", 1)


def starts(monkeypatch: pytest.MonkeyPatch, cache: Path, making: Making) -> tuple[Callable[[], str], list[Path]]:
    """What a session asks, with the processes that it begins."""
    begun = list[Path]()

    def run(command: list[str], **_: object) -> None:
        begun.append(Path(command[-1]))
        making(begun[-1])

    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(class_archive, "MADE_AT", 2)
    return lambda: class_archive.option_for(_JAVA), begun


def test_one_session_makes_it_and_all_after_it_use_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    start, begun = starts(monkeypatch, tmp_path, _makes)
    assert (start(), begun) == ("", [])
    option = start()
    (archive,) = tmp_path.glob("eventlib/spark-classes/17-abc-*.jsa")
    assert option.split()[0] == f"-XX:SharedArchiveFile={archive}"
    assert archive.read_bytes() == b"classes"
    assert (start(), len(begun)) == (option, 1)
    assert [*archive.parent.iterdir()] == [archive]


def test_a_java_that_cannot_make_it_is_not_asked_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    start, begun = starts(monkeypatch, tmp_path, _cannot)
    assert [start() for _ in range(4)] == [""] * 4
    assert len(begun) == 1


def test_while_another_process_makes_it_no_session_waits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    start, begun = starts(monkeypatch, tmp_path, _makes)
    start()
    with alone(tmp_path / "eventlib/spark-classes", "makes it in"):
        assert (start(), begun) == ("", [])
    assert start()


def test_without_a_place_for_it_a_session_starts_as_well(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "eventlib").write_text("not a directory")
    start, begun = starts(monkeypatch, tmp_path, _makes)
    assert ([start(), start()], begun) == (["", ""], [])
