"""The link from a saga to its trace, in the tool that a setting names."""

from html import unescape
from pathlib import Path

import httpx
import pytest

from eventlib import open_log
from eventlib.config.console import console_options
from eventlib.ground.variables import SettingsError
from eventlib.model.identity import is_sampled
from eventlib.model.record import key_text
from tests.console.browsers import running_console
from tests.console.parked_rates import settled
from tests.console.rates_app import RateAsked, app

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_saga_that_is_traced_leads_to_its_trace(tmp_path: Path) -> None:
    options = console_options(trace_url="https://traces.example/t?id={trace_id}&ui=1")
    async with open_log(f"sqlite:///{tmp_path}/log.db", app) as log:
        for number in range(400):  # one in fifty is traced, by an id that is not known before
            await log.publish(RateAsked(name=f"N{number}", number=number))
        await settled(log)
        asked = [each for p in range(4) for each in await log.port.read("asked", p, 0, 400)]
        traces = {key_text(each): (each.traceparent or "")[3:35] for each in asked if is_sampled(each.traceparent)}
        untraced = next(key_text(each) for each in asked if key_text(each) not in traces)
        name, trace = next(iter(traces.items()))
        async with running_console(log, options=options) as url, httpx.AsyncClient(base_url=url, timeout=60) as client:
            assert f'href="https://traces.example/t?id={trace}&ui=1"' in unescape(
                (await client.get(f"/saga/{name}")).text
            )
            assert "traces.example" not in (await client.get(f"/saga/{untraced}")).text


@pytest.mark.parametrize("url", ["javascript:alert('{trace_id}')", "https://traces.example/"])
async def test_an_address_that_is_none_of_a_trace_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match=r"EVENTLIB_CONSOLE_TRACE_URL.*\{trace_id\}"):
        console_options(trace_url=url)
