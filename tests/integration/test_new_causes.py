"""A new cause for which something is parked is logged once, with its traceback; what follows for the same cause is not."""

import asyncio
import logging
from pathlib import Path

import pytest

from eventlib import Runtime, open_log
from eventlib.operations.parked_groups import grouped
from eventlib.queries.parked import parkings
from eventlib.values import escaped
from tests.apps.small_shop import Ordered, Outside, make_shop
from tests.console.rates_app import BROKEN, RateAsked, app


async def test_a_cause_is_one_warning_with_its_traceback_however_many_inputs_it_parks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(BROKEN, "1")
    async with open_log(f"sqlite:///{tmp_path}/log.db", app) as log:
        for number, name in enumerate(("MT", "IS", "FO", "MT")):
            await log.publish(RateAsked(name=name, number=number))
        with caplog.at_level(logging.DEBUG, "eventlib.runtime"):
            async with Runtime(log) as runtime:
                await runtime.idle()
                assert runtime.causes == {"rates": 1}
        (group,) = grouped(await parkings(log))
    told = [each for each in caplog.records if f"cause {group.fingerprint}" in each.getMessage()]
    assert [each.levelname for each in told] == ["WARNING", "DEBUG", "DEBUG"], "what waits behind MT is no failure"
    assert "KeyError: 'no rate for" in told[0].getMessage()
    assert 'raise KeyError(f"no rate for {asked.name}")' in told[0].getMessage()
    assert "rates_app.py" in told[0].getMessage()


async def test_a_parked_effect_is_told_with_the_line_that_raised(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_log(f"sqlite:///{tmp_path}/log.db", make_shop(set())) as log:
        with caplog.at_level(logging.DEBUG, "eventlib.runtime"):
            async with Runtime(log, ports={"gateway": Outside(refuses={"1", "2"})}):
                for order_id in ("1", "2"):
                    await log.publish(Ordered(order_id=order_id, cents=1))
                async with asyncio.timeout(60):
                    while len(await parkings(log)) < 2:
                        await asyncio.sleep(0.02)
        (group,) = grouped(await parkings(log))
    told = [each for each in caplog.records if f"cause {group.fingerprint}" in each.getMessage()]
    assert sorted(each.levelname for each in told) == ["DEBUG", "WARNING"]
    warning = next(each.getMessage() for each in told if each.levelname == "WARNING")
    assert "TerminalError: this card was never one" in warning
    assert 'raise TerminalError("this card was never one")' in warning


async def test_a_key_begins_no_line_of_the_log_and_is_no_escape_sequence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(BROKEN, "1")
    keys = ["MT\nWARNING eventlib.runtime: all is well", "MT\x1b]0;title\x07\x1b[31m"]
    async with open_log(f"sqlite:///{tmp_path}/log.db", app) as log:
        for number, name in enumerate(keys):
            await log.publish(RateAsked(name=name, number=number))
        with caplog.at_level(logging.DEBUG, "eventlib.runtime"):
            async with Runtime(log) as runtime:
                await runtime.idle()
    logged = "\n".join(each.getMessage() for each in caplog.records if " parked" in each.getMessage())
    assert {*map(escaped, keys)} == {key for key in map(escaped, keys) if key in logged}
    assert not [each for each in logged.splitlines() if each.startswith("WARNING")]
    assert not {"\x1b", "\x07"} & {*logged}
