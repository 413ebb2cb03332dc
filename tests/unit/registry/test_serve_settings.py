"""`eventlib schemas serve` says in one sentence which setting is wrong, and never shows a password."""

import pytest

from eventlib.cli import run


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"WRITERS": '{"ann": "s3cret"'}, "writers has to be JSON"),
        ({"READERS": '{"ann": ["s3cret"]}'}, "readers has to be JSON"),
        ({"READERS": '{"a:b": "s3cret"}'}, "no colon"),
        ({"READERS": '{"ann": "s3cret"}', "WRITERS": '{"ann": "s3cret"}'}, "a reader or a writer, not both"),
        ({"CERTIFICATE": "/nowhere.pem"}, "go together"),
        ({"CERTIFICATE": "/nowhere.pem", "KEY": "/nowhere.key"}, "/nowhere.pem"),
        ({"COMPATIBILITY": "SOME"}, "EVENTLIB_SCHEMAS_COMPATIBILITY='SOME': expected 'NONE', 'BACKWARD'"),
        ({"WRITER": "s3cret"}, "did you mean EVENTLIB_SCHEMAS_WRITERS?"),
        ({"PORT": "many"}, "--port many: expected a port or HOST:PORT"),
    ],
)
def test_a_setting_that_is_wrong_is_told(
    variables: dict[str, str], sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(f"EVENTLIB_SCHEMAS_{name}", value)
    assert run(["schemas", "serve", "--port", variables.get("PORT", "0"), "--log", "memory://"]) == 1
    said = capsys.readouterr().err
    assert sentence in said
    assert "s3cret" not in said
    assert said.count("\n") == 1
