"""A log that cannot be read is refused in a sentence, before Spark is started or a directory made for nothing."""

from pathlib import Path

import pytest

from analytics.cli import run


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mysql://x", "unknown scheme"),
        ("archive:no-such-directory", "analytics archive --log URL"),
        ("kafka://127.0.0.1:1", "no Kafka broker can be reached"),
        ("sqlite:///no-such-file.db", "there is no log"),
    ],
)
@pytest.mark.parametrize("options", [["rebuild"], ["rebuild", "--follow"], ["report"]], ids=" ".join)
def test_nothing_is_made_of_a_log_that_cannot_be_read(
    url: str, says: str, options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out" / "made"
    assert run([*options, "--log", url, "--out", str(out)]) == 1
    assert says in capsys.readouterr().err
    assert not out.parent.exists()


@pytest.mark.parametrize("command", ["report", "reconcile", "audit"])
def test_an_application_that_is_not_there_is_refused_before_anything_is_read(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, "--app", "no.such:app", "--log", "sqlite:///no-such-file.db"]) == 1
    assert "no.such" in capsys.readouterr().err
