"""Text on a log that would steer a terminal, or look like lines of ours, is printed with escapes, by every command."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from eventlib import Runtime, RuntimeConfig, open_log
from eventlib import cli as eventlib_cli
from eventlib.cli._common import output
from eventlib.cli._common.exit_codes import safe_streams
from eventlib.errors import TerminalError
from eventlib.values import escaped, unsafe_in
from services import shop
from services.order.events import OrderLine, OrderSubmitted
from services.payment.ports import Charged, Declined
from tests.integration.api_shop import World, stock_up

FAKE = "■ OrderCompleted FAKE"
HOSTILE = f"7\x00\x1b[2J\x9b1m\x7f\u202e\r\n{FAKE}"


class Refusing(World):
    """A gateway whose refusals are hostile, too: the charge is parked with its words."""

    async def charge(self, key: str, order_id: str, amount_cents: int, currency: str) -> Charged | Declined:
        raise TerminalError(f"{HOSTILE} {key} {order_id} {amount_cents} {currency}")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("hostile")
    found = f"sqlite:///{directory}/shop.db"
    asyncio.run(_filled(found, directory))
    return found


async def _filled(url: str, directory: Path) -> None:
    line = OrderLine(line_no=1, sku="A", quantity=1, unit_price_cents=250)
    submitted = OrderSubmitted(
        order_id=HOSTILE, customer_id=HOSTILE, country=HOSTILE, currency="GBP", lines=(line,), placed_at=None
    )
    world = Refusing()
    async with open_log(url, shop) as log, asyncio.timeout(120):
        await stock_up(log)
        config = RuntimeConfig(state_dir=str(directory / "state"))
        async with Runtime(log, ports={"gateway": world, "carrier": world}, config=config) as runtime:
            await log.publish(submitted)
            await runtime.idle()


COMMANDS = {
    "saga": ["saga", HOSTILE],
    "tree": ["saga", HOSTILE, "--tree"],
    "then": ["saga", HOSTILE, "--at", "2100-01-01"],
    "state": ["state", "order", HOSTILE],
    "history": ["history", "order", HOSTILE],
    "history of what is parked": ["history", "payment", HOSTILE],
    "tail": ["tail"],
    "internals": ["tail", "payment.changelog", "payment.journal", "payment.parked"],
    "parked": ["parked", "list"],
    "show": ["parked", "show", HOSTILE],
    "status": ["status", "--sagas"],
    "unknown": ["saga", f"{HOSTILE}?"],
    "unknown state": ["state", "order", f"{HOSTILE}?"],
    "no such command": [HOSTILE],
    "no such topic": ["tail", HOSTILE],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_that_is_printed_steers_a_terminal(
    command: str, url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = COMMANDS[command]
    monkeypatch.setenv("COLUMNS", "1000")  # a narrow table would leave words out
    eventlib_cli.run([*arguments, "--log", url])
    printed = capsys.readouterr()
    for line in (printed.out + printed.err).split("\n"):
        assert unsafe_in(line) is None, line
        assert not line.strip(" └├│─").startswith(FAKE), line
    assert "OrderCompleted FAKE" in printed.out + printed.err or command in {"status", "internals"}


@pytest.mark.parametrize("command", ["saga", "state", "history", "tail", "parked", "show"])
def test_json_says_what_stands_on_the_log(command: str, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert eventlib_cli.run([*COMMANDS[command], "--json", "--log", url]) == 0
    lines = capsys.readouterr().out.removesuffix("\n").split("\n")
    assert all(unsafe_in(line) is None for line in lines)
    assert HOSTILE in "".join(str(each) for line in lines for each in _texts(json.loads(line)))


def _texts(value: object) -> list[str]:
    match value:
        case dict():
            return [text for each in value.values() for text in _texts(each)]
        case list():
            return [text for each in value for text in _texts(each)]
        case _:
            return [str(value)]


def test_what_is_written_to_a_stream_by_others_is_neutralised_too(capsys: pytest.CaptureFixture[str]) -> None:
    with safe_streams():
        print(HOSTILE)
        sys.stderr.write(HOSTILE)
    printed = capsys.readouterr()
    assert printed.out == printed.err + "\n" == escaped(HOSTILE).replace("\\n", "\n") + "\n"


def test_colours_of_ours_stay(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    with safe_streams():
        output.terminal().print("[red]a\x1b[2Jb[/red]")
    assert capsys.readouterr().out == "\x1b[31ma\\u001b[2Jb\x1b[0m\n"
