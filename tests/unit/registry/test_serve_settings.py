"""`eventlib schemas serve` says in one sentence which setting is wrong, and never shows a password."""

import pytest

from eventlib.cli import run


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"SCHEMAS_WRITERS": '{"ann": "s3cret"}'}, "there is no setting EVENTLIB_SCHEMAS_WRITERS: make a token"),
        ({"SCHEMAS_CERTIFICATE": "/nowhere.pem"}, "set EVENTLIB_TLS_CERTIFICATE"),
        ({"TLS_CERTIFICATE": "/nowhere.pem"}, "go together"),
        ({"TLS_CERTIFICATE": "/nowhere.pem", "TLS_KEY": "/nowhere.key"}, "/nowhere.pem"),
        ({"SCHEMAS_COMPATIBILITY": "SOME"}, "EVENTLIB_SCHEMAS_COMPATIBILITY='SOME': expected 'NONE', 'BACKWARD'"),
        ({"SCHEMAS_COMPATIBILTY": "NONE"}, "did you mean EVENTLIB_SCHEMAS_COMPATIBILITY?"),
        ({"SCHEMAS_PORT": "many"}, "--port many: expected a port or HOST:PORT"),
    ],
)
def test_a_setting_that_is_wrong_is_told(
    variables: dict[str, str], sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(f"EVENTLIB_{name}", value)
    assert run(["schemas", "serve", "--port", variables.get("SCHEMAS_PORT", "0"), "--log", "memory://"]) == 1
    said = capsys.readouterr().err
    assert sentence in said
    assert "s3cret" not in said
    assert said.count("\n") == 1
