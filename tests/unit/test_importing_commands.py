"""The shop's commands when they are used wrongly: a sentence on stderr, an exit code, and no traceback."""

from pathlib import Path

import pytest

from services.__main__ import run


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["import", "none.ndjson"], 1, "none.ndjson is not a file"),
        (["import", "none.ndjson", "--decline", "1.5"], 2, "invalid value for '--decline'"),
        (["import", "none.ndjson", "--gateway-timeout", "nan"], 2, "invalid value for '--gateway-timeout'"),
        (["import", "none.ndjson", "--stock", "0"], 2, "invalid value for '--stock'"),
        (["import"], 2, "missing argument 'FILE'"),
        (["imports"], 2, "no such command 'imports'"),
    ],
)
def test_a_sentence_and_an_exit_code(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, says: str
) -> None:
    assert run(arguments) == code
    assert says in capsys.readouterr().err


def test_an_unknown_log_and_a_missing_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "orders.ndjson"
    file.write_text("")
    assert run(["import", str(file), "--log", "nowhere://x"]) == 1
    assert "unknown scheme 'nowhere'" in capsys.readouterr().err
    assert run(["import", str(file), "--rejects", str(tmp_path / "none" / "r.ndjson")]) == 1
    assert "there is no directory" in capsys.readouterr().err
