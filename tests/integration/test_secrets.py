"""Secrets are planted in every setting, and looked for in all that is printed, recorded, traced and measured."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from eventlib import Runtime, RuntimeConfig, open_log
from eventlib import cli as eventlib_cli
from eventlib.config.effective import Given, settings_now
from eventlib.ground.variables import SettingsError
from eventlib.telemetry.options import telemetry_options
from services import shop
from services.order.events import OrderLine, OrderSubmitted
from services.outside import open_ports
from services.settings import shop_settings
from tests.integration.api_shop import stock_up
from tests.integration.otlp import receiving
from tests.serving import serving

SECRET = "hunter2"  # noqa: S105  as everybody knows
URL = f"https://ann:{SECRET}@127.0.0.1:1/x"
_ORDER = OrderSubmitted(
    order_id="1",
    customer_id=None,
    country="France",
    currency="GBP",
    lines=(OrderLine(line_no=1, sku="A", quantity=1, unit_price_cents=250),),
    placed_at=None,
)
MISPLACED = {
    "EVENTLIB_LOG": "EVENTLIB_KAFKA_PASSWORD",
    "EVENTLIB_REGISTRY": "EVENTLIB_REGISTRY_PASSWORD",
    "EVENTLIB_KAFKA_OAUTH_TOKEN_URL": "EVENTLIB_KAFKA_OAUTH_CLIENT_SECRET",
    "EVENTLIB_SCHEMAS_ADDRESS": "leave them out",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "OTEL_EXPORTER_OTLP_HEADERS",
    "SHOP_GATEWAY_URL": "SHOP_GATEWAY_PASSWORD",
    "SHOP_CARRIER_URL": "SHOP_CARRIER_PASSWORD",
}


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for variable in list(os.environ):
        if variable.startswith(("EVENTLIB_", "SHOP_", "OTEL_")):
            monkeypatch.delenv(variable)


def test_no_setting_prints_a_secret(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = {each.variable: each for each in settings_now(shop.settings, Given())}
    assert MISPLACED.keys() < found.keys()
    taken = dict[str, str]()
    for variable, each in found.items():
        planted = f'{{"{variable.lower()}": "{SECRET}{SECRET}{SECRET}"}}' if each.secret else URL
        with monkeypatch.context() as patched:
            patched.setenv(variable, planted)
            refusal = _refusal()
        assert SECRET not in refusal, variable
        assert not (refusal and each.secret), variable
        if not refusal:
            taken[variable] = planted
    assert taken.keys() & MISPLACED.keys() == set()
    del taken["EVENTLIB_APP"]  # of which there has to be one
    for variable, planted in taken.items():
        monkeypatch.setenv(variable, planted)
    monkeypatch.setenv("COLUMNS", "1000")  # a narrow table would leave values out
    for form in ([], ["--json"]):
        code, printed = eventlib_cli.run(["config", *form]), capsys.readouterr()
        assert (code, printed.err) == (0, "")
        assert "…@127.0.0.1" in printed.out
        assert SECRET not in printed.out + printed.err


def _refusal() -> str:
    try:
        settings_now(shop.settings, Given())
    except SettingsError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("variable", MISPLACED)
def test_a_user_in_a_url_is_refused_with_the_setting_to_use(
    variable: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, URL)
    assert eventlib_cli.run(["config"]) == 1
    complaint = capsys.readouterr().err
    assert variable in complaint
    assert MISPLACED[variable] in complaint
    assert SECRET not in complaint


@pytest.mark.parametrize(
    "arguments",
    [
        ["status", "--log", f"kafka://ann:{SECRET}@127.0.0.1:1/"],
        ["status", "--log", f"kafka://127.0.0.1:1/?sasl_password={SECRET}"],
        ["status", "--log", f"kafka://127.0.0.1:1/?password={SECRET}"],
        ["status", "--log", f"kafka://127.0.0.1:1/x?password={SECRET}"],
        ["status", "--log", f"sqlite://ann:{SECRET}@/shop.db"],
        ["status", "--log", f"postgres://ann:{SECRET}@host/db"],
        ["copy", "--from", f"kafka://ann:{SECRET}@127.0.0.1:1/", "--to", f"https://ann:{SECRET}@host"],
    ],
)
def test_no_complaint_about_an_option_shows_a_secret(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert eventlib_cli.run(arguments) in {1, 2}
    assert SECRET not in "".join(capsys.readouterr())


def test_a_gateway_that_says_the_password_back_puts_it_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sent = b64encode(f"ann:{SECRET}".encode()).decode()
    url = f"sqlite:///{tmp_path}/shop.db"
    monkeypatch.setenv("SHOP_GATEWAY_USER", "ann")
    monkeypatch.setenv("SHOP_GATEWAY_PASSWORD", SECRET)
    with receiving(keeps=True) as receiver, monkeypatch.context() as traces:
        traces.setenv("OTEL_TRACES_EXPORTER", "otlp")
        traces.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        traces.setenv("OTEL_TRACES_SAMPLER_ARG", "1")
        scraped = asyncio.run(_charged(url, tmp_path))
        traced = repr(receiver.bodies)
    for arguments in (["parked", "list"], ["parked", "show", "1"], ["tail"], ["status"], ["saga", "1"]):
        for form in ([], ["--json"]):
            eventlib_cli.run([*arguments, *form, "--log", url])
    printed = "".join(capsys.readouterr())
    assert "status 403: ann said" in printed  # it is parked, with what the gateway has answered
    assert "charge" in traced.lower()
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"status 403: ann said" in kept
    for secret in (SECRET, sent):
        assert secret not in printed + traced + scraped
        assert secret.encode() not in kept


async def _charged(url: str, directory: Path) -> str:
    """Let an order come to its charge, which is parked, and return the metrics."""

    from eventlib.telemetry.process import telemetry_of

    config = RuntimeConfig(state_dir=str(directory / "state"))
    async with (
        asyncio.timeout(120),
        _saying_back() as gateway,
        open_log(url, shop) as log,
        open_ports(shop_settings(gateway_url=gateway), url) as ports,
    ):
        await stock_up(log)
        with telemetry_of(shop, url, telemetry_options(), metrics=True) as telemetry:
            assert telemetry is not None
            async with Runtime(log, ports=ports, config=config, observer=telemetry.recorder) as runtime:
                telemetry.observe(log, runtime, config)
                await log.publish(_ORDER)
                await runtime.idle()
                return (await telemetry.exposition()).decode()


@asynccontextmanager
async def _saying_back() -> AsyncIterator[str]:
    """Run a server that refuses every call, and says in its answer what it was sent."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = (await reader.readuntil(b"\r\n\r\n")).decode()
        (sent,) = [line for line in request.splitlines() if line.lower().startswith("authorization:")]
        body = f"ann said {sent}, which is {SECRET}".encode()
        writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    async with serving(serve) as port:
        yield f"http://127.0.0.1:{port}"
