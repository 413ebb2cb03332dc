"""Settings from the environment: a wrong or unknown one is told by its name, and nothing starts with it."""

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from eventlib import Choreography, RuntimeConfig, WiringError
from eventlib import cli as eventlib_cli
from eventlib.config.settings import eventlib_settings, runtime_config
from eventlib.ground.variables import SettingsError
from services import __main__ as shop_cli
from services.settings import ShopSettings, demo_settings, shop_settings

ROOT = Path(__file__).parents[2]


pytestmark = pytest.mark.usefixtures("no_variables")


def test_without_variables_the_defaults_are_those_of_the_classes() -> None:
    assert runtime_config() == RuntimeConfig()
    assert shop_settings() == ShopSettings.model_construct()
    assert (eventlib_settings().log, eventlib_settings().app) == (None, None)


def test_the_described_fields_of_the_runtime_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    default, fixed = (
        RuntimeConfig(),
        {"blocked_s", "restore_chunk", "skipped_inputs", "retry_pause_s", "compare_topics_s", "flush_s"},
    )
    settable = [each for each in fields(RuntimeConfig) if each.name not in fixed]
    for number, each in enumerate(settable, start=1):
        is_flag = isinstance(getattr(default, each.name), bool)
        monkeypatch.setenv(f"EVENTLIB_{each.name.upper()}", "true" if is_flag else str(number))
    found = runtime_config()
    expected = [type(getattr(default, each.name))(number) for number, each in enumerate(settable, start=1)]
    assert [getattr(found, each.name) for each in settable] == expected


def test_what_is_given_wins_over_the_environment_and_that_over_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENTLIB_LOG", "sqlite:///environment.db")
    monkeypatch.setenv("SHOP_DECLINE", "0.5")
    assert eventlib_settings(log=None).log == "sqlite:///environment.db"
    assert eventlib_settings(log="sqlite:///given.db").log == "sqlite:///given.db"
    assert (shop_settings().decline, shop_settings(decline=0.25).decline) == (0.5, 0.25)
    assert (demo_settings(None).decline, demo_settings(None).undeliverable, demo_settings(3).seed) == (0.5, 0.01, 3)


def test_an_empty_variable_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENTLIB_LOG", "")
    monkeypatch.setenv("SHOP_GATEWAY_URL", "")
    assert eventlib_settings().log is None
    assert shop_settings().gateway_url is None


def test_known_variables_that_others_read_are_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENTLIB_TRACEBACK", "1")
    monkeypatch.setenv("EVENTLIB_REGISTRY", "http://registry:8081")
    monkeypatch.setenv("EVENTLIB_BATCH", "7")
    eventlib_settings()
    assert runtime_config().batch == 7


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("SHOP_DECLINE", "2", "SHOP_DECLINE='2': expected less than or equal to 1"),
        ("SHOP_DECLINE", "nan", "SHOP_DECLINE='nan': expected"),
        ("SHOP_SEED", "one", "SHOP_SEED='one': expected a valid integer"),
        ("SHOP_GATEWAY_URL", "gateway", "SHOP_GATEWAY_URL='gateway': expected a valid URL"),
        ("SHOP_READ_TIMEOUT_S", "0", "SHOP_READ_TIMEOUT_S='0': expected greater than 0"),
        ("SHOP_DECLIEN", "0.1", "there is no setting SHOP_DECLIEN: did you mean SHOP_DECLINE?"),
        ("EVENTLIB_BATCH", "many", "EVENTLIB_BATCH='many': expected a valid integer"),
        ("EVENTLIB_BATCH", "0", "EVENTLIB_BATCH='0': expected greater than or equal to 1"),
        ("EVENTLIB_GRACE_S", "inf", "EVENTLIB_GRACE_S='inf': expected a finite number"),
        ("EVENTLIB_BATHC", "1", "there is no setting EVENTLIB_BATHC: did you mean EVENTLIB_BATCH?"),
        (
            "EVENTLIB_QQQQQQQQQQQQQQQQQQQQQQQ",
            "1",
            "there is no setting EVENTLIB_QQQQQQQQQQQQQQQQQQQQQQQ: known are EVENTLIB_ADMIN_TOKEN, EVENTLIB_AHEAD_S",
        ),
    ],
)
def test_a_wrong_setting_is_named(monkeypatch: pytest.MonkeyPatch, variable: str, value: str, expected: str) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsError) as refused:
        shop_settings() if variable.startswith("SHOP") else runtime_config()
    assert str(refused.value).startswith(expected)
    assert isinstance(refused.value, WiringError)


def test_a_setting_whose_value_is_fixed_by_now_is_ignored_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("EVENTLIB_FLUSH_S", "2")
    assert [runtime_config().flush_s for _ in range(2)] == [5.0, 5.0]
    assert caplog.messages == ["EVENTLIB_FLUSH_S is ignored: it is 5 s now; leave it out"]


@pytest.mark.parametrize("name", ["services.setings:ShopSettings", "services.settings:Settings", "Shop Settings"])
def test_settings_that_are_named_wrongly_are_refused_with_the_name(name: str) -> None:
    named = Choreography("shop", [], settings=[name])
    with pytest.raises(WiringError, match=f"^settings: there is no '{name}' .*: write module:Class$"):
        named.settings  # noqa: B018  it is looked for now


@pytest.mark.parametrize("variable", ["EVENTLIB_BATCH", "SHOP_SEED", "EVENTLIB_WRONG", "SHOP_WRONG"])
@pytest.mark.parametrize("command", ["run", "import", "demo", "simulators"])
def test_nothing_starts_with_a_wrong_setting(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path_factory: pytest.TempPathFactory,
    command: str,
    variable: str,
) -> None:
    if command == "simulators" and variable.startswith("EVENTLIB_"):
        pytest.skip("the simulators know nothing of logs")
    directory = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.setenv(variable, "wrong")
    log = f"sqlite:///{directory}/shop.db"
    if command == "run":
        code = eventlib_cli.run(["run", "--app", "services:shop", "--log", log])
    else:
        arguments = {"import": ["import", "x.ndjson", "--log", log], "demo": ["demo", "--log", log]}
        code = shop_cli.run(arguments.get(command, ["simulators", "--ledger", f"{directory}/ledger.db"]))
    complaint = capsys.readouterr().err
    assert (code, complaint.count("\n")) == (1, 1), complaint
    assert variable in complaint
    assert "Traceback" not in complaint
    assert list(directory.iterdir()) == []


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, dict[str, Any]]:
    assert eventlib_cli.run(["config", "--json", *arguments]) == 0
    return {each["variable"]: each for each in map(json.loads, capsys.readouterr().out.splitlines())}


def test_config_says_what_each_setting_is_and_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for variable, value in {"EVENTLIB_BATCH": "7", "SHOP_DECLINE": "0.5", "EVENTLIB_KAFKA_APPLICATION": "shop"}.items():
        monkeypatch.setenv(variable, value)
    found = printed(capsys, "--log", "kafka://broker:1/?prefix=p.")
    told = {name: (each["value"], each["source"], each["default"]) for name, each in found.items()}
    assert told["EVENTLIB_LOG"] == ("kafka://broker:1/?prefix=p.", "option", None)
    assert told["EVENTLIB_APP"] == ("services:shop", "pyproject.toml", None)
    assert printed(capsys)["EVENTLIB_LOG"]["value"] == "sqlite:///var/shop.db"  # unset, it is the application's
    assert told["EVENTLIB_BATCH"] == (7, "environment", 500)
    assert told["EVENTLIB_KAFKA_PREFIX"] == ("p.", "the log's URL", "")
    assert told["EVENTLIB_KAFKA_APPLICATION"] == ("shop", "environment", "eventlib")
    assert told["SHOP_DECLINE"] == (0.5, "environment", 0.0)
    assert told["EVENTLIB_GRACE_S"] == (5.0, "default", 5.0)
    assert all(each["meaning"] for each in found.values())


def test_config_hides_secrets(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    secrets = {name for name, each in printed(capsys).items() if each["secret"]}
    assert {
        "EVENTLIB_ADMIN_TOKEN",
        "EVENTLIB_REGISTRY_PASSWORD",
        "EVENTLIB_KAFKA_PASSWORD",
        "SHOP_GATEWAY_PASSWORD",
        "EVENTLIB_TLS_KEY_PASSWORD",
    } <= secrets
    for number, name in enumerate(secrets):
        is_key = name == "EVENTLIB_IDENTITY_KEY"
        monkeypatch.setenv(name, "ab" * 32 if is_key else f'{{"ann{number}": "hunter2"}}')
    found = printed(capsys)
    assert {found[name]["value"] for name in secrets} == {"**********"}
    assert eventlib_cli.run(["config"]) == 0
    assert "hunter2" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("EVENTLIB_KAFKA_TLS", "perhaps"),
        ("EVENTLIB_SCHEMAS_COMPATIBILITY", "SOME"),
        ("SHOP_DECLINE", "2"),
        ("SHOP_DECLIN", "0.5"),
        ("OTEL_TRACES_EXPORTER", "jaeger"),
    ],
)
@pytest.mark.parametrize("command", ["config", "run"])
def test_nothing_starts_with_a_setting_wrong_that_only_a_part_would_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    monkeypatch.setenv("EVENTLIB_LOG", "memory://")
    service = ["--service", "stock"] if command == "run" else []
    assert eventlib_cli.run([command, *service]) == 1
    complaint = capsys.readouterr().err
    assert variable in complaint
    assert complaint.count("\n") == 1


def test_every_variable_that_the_code_speaks_of_is_a_setting(capsys: pytest.CaptureFixture[str]) -> None:
    known = printed(capsys)
    spoken = {
        name
        for package in ("eventlib", "services", "analytics", "deploy", "docs", "README.md")
        for path in ([ROOT / package] if package.endswith(".md") else (ROOT / package).rglob("*"))
        if path.is_file() and path.suffix in {".py", ".md", ".yaml", ".yml", ".sh", ".env", ".json", ".example"}
        for name in re.findall(r"\b(?:EVENTLIB|SHOP)_[A-Z_]*[A-Z](?![A-Z_{…])", path.read_text(encoding="utf-8"))
    }
    assert spoken - known.keys() == set()


def test_the_table_of_settings_is_what_is_generated(capsys: pytest.CaptureFixture[str]) -> None:
    assert eventlib_cli.run(["export", "settings", "--app", "services:shop"]) == 0
    kept = (ROOT / "deploy" / "settings.md").read_text(encoding="utf-8")
    assert capsys.readouterr().out == kept, "run `eventlib export settings --out deploy`"


def test_faults_of_a_gateway_that_is_elsewhere_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHOP_GATEWAY_URL", "http://127.0.0.1:1/gateway")
    assert shop_cli.run(["import", "x.ndjson", "--decline", "0.1"]) == 1
    assert "the gateway is at http://127.0.0.1:1/gateway (SHOP_GATEWAY_URL)" in capsys.readouterr().err
