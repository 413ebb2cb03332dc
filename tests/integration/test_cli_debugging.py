"""`eventlib debug`: stops in the handler, at its first line, with the arguments of that moment."""

import inspect
import json
import socket
import subprocess
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import pytest

from eventlib import Runtime, open_log
from eventlib.errors import ContractError, UnknownKey
from eventlib.replay import debugging
from eventlib.replay.debugging import decisions_about
from services.payment.decider import charge, follow
from services.payment.events import PaymentFailed
from services.payment.state import Stage
from tests.apps.small_shop import Order, Ordered, Outside, make_shop, settle
from tests.integration.reopening import everything
from tests.integration.shop_log import Objects, Print
from tests.ports import free_port


class Ide:
    """A client of one debugger that waits on a port of this machine."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._file = self._socket.makefile("rb")
        self._sent = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()
        self._socket.close()

    def attach(self) -> None:
        """Attach, and let the program run."""
        self.send("initialize", adapterID="test")
        self.send("attach", justMyCode=True)
        self.event("initialized")
        self.send("configurationDone")

    def send(self, command: str, **arguments: object) -> int:
        """Send a request and return its number."""
        self._sent += 1
        request = {"seq": self._sent, "type": "request", "command": command, "arguments": arguments}
        body = json.dumps(request).encode()
        self._socket.sendall(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        return self._sent

    def ask(self, command: str, **arguments: object) -> Any:
        """Send a request and return what its response says."""
        number = self.send(command, **arguments)
        return self._next(lambda m: m["type"] == "response" and m["request_seq"] == number)["body"]

    def event(self, name: str) -> Any:
        """Wait for an event and return what it says."""
        return self._next(lambda message: message["type"] == "event" and message["event"] == name).get("body")

    def stopped(self) -> tuple[str, int, dict[str, str]]:
        """Wait until the program stops; return the function, the line and the local variables, and let it go on."""
        thread = self.event("stopped")["threadId"]
        frame = self.ask("stackTrace", threadId=thread)["stackFrames"][0]
        scope = self.ask("scopes", frameId=frame["id"])["scopes"][0]
        variables = self.ask("variables", variablesReference=scope["variablesReference"])["variables"]
        self.send("continue", threadId=thread)
        return frame["name"], frame["line"], {each["name"]: each["value"] for each in variables}

    def _next(self, is_wanted: Callable[[Any], bool]) -> Any:
        while True:
            message = self._read()
            if is_wanted(message):
                return message

    def _read(self) -> Any:
        size = 0
        while line := self._file.readline().strip():
            name, _, value = line.partition(b":")
            size = int(value) if name.lower() == b"content-length" else size
        return json.loads(self._file.read(size))


Replayed = Callable[..., str]


def command(log: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", "from eventlib.cli import main; main()", "debug", "--log", log, *arguments]


@pytest.fixture
def replayed(filled: str) -> Replayed:
    """Run the command with pdb's commands on stdin, and return what it prints."""

    def replay(*arguments: str, commands: str) -> str:
        done = subprocess.run(
            command(filled, *arguments, "--stdin"),
            input=commands,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    return replay


@pytest.fixture
def ids(objects: Objects) -> dict[str, str]:
    """The ids of the declined order's events, by type."""
    return {event["type"]: event["id"] for event in objects("saga", "declined")[0]["events"]}


def first_line(function: Callable[..., Any]) -> int:
    """Return the number of a function's first statement; each of these has a docstring of one line."""
    lines, number = inspect.getsourcelines(function)
    return number + next(n for n, line in enumerate(lines) if '"""' in line) + 1


def test_pdb_stops_at_the_handlers_first_line_with_its_own_arguments(replayed: Replayed, ids: dict[str, str]) -> None:
    arguments = ("declined", ids["PaymentFailed"], "--decider", "payment")
    printed = replayed(*arguments, commands="p payment\np event\nc\n")
    assert f"payment.follow on PaymentFailed {ids['PaymentFailed'][:8]} of key declined, as at 20" in printed
    assert "\nemitted then: nothing\n" in printed
    assert f"services/payment/decider.py({first_line(follow)})follow()" in printed
    assert f"(Pdb) Payment(stage={Stage.CHARGING!r}, charge_key='{ids['ChargeRequested']}'" in printed
    assert f"(Pdb) {PaymentFailed(order_id='declined', reason='declined')!r}" in printed
    assert printed.endswith("emits the same now\n")


def test_a_handler_can_be_stepped_through_and_its_answer_changed(replayed: Replayed, ids: dict[str, str]) -> None:
    arguments = ("declined", ids["ChargeRequested"][:8])
    printed = replayed(
        *arguments, commands="import dataclasses\npayment = dataclasses.replace(payment, stage=None)\nc\n"
    )
    assert "payment.charge on StockReserved" in printed, "nobody handles the request: it stops where it was said"
    assert f"({first_line(charge)})charge()" in printed
    assert "\nemitted then: ChargeRequested amount_cents=250 currency=EUR country=France\n" in printed
    assert printed.endswith("emits now: nothing\n")


def test_it_stops_in_each_handler_until_the_person_leaves(replayed: Replayed, ids: dict[str, str]) -> None:
    arguments = ("declined", ids["PaymentFailed"])
    printed = replayed(*arguments, commands="c\nc\nc\n")
    assert all(f"{n} of 3: " in printed for n in (1, 2, 3))
    assert all(
        f"{name} on PaymentFailed" in printed for name in ("payment.follow", "order.close", "reservation.call_off")
    )
    assert "2 of 3: " not in replayed(*arguments, commands="q\n")


def test_what_is_no_call_of_a_handler_is_explained(shown: Print, ids: dict[str, str]) -> None:
    at = ids["OrderSubmitted"]
    sentences = {
        ("declined", at): "pdb needs a terminal, and stdin is none: give --stdin",
        ("nope", at, "--stdin"): "no decider knows key 'nope'",
        ("declined", at, "--stdin", "--decider", "nobody"): "there is no decider 'nobody'",
        ("declined", at, "--stdin", "--decider", "payment"): "payment neither consumed nor emitted OrderSubmitted",
        ("declined", "0" * 32, "--stdin"): "no event on this log has the id",
        ("garbled", "g", "--stdin", "--decider", "payment"): "payment called no handler then: "
        "PaymentTaken was parked: PaymentTaken: the first byte",
    }
    for arguments, sentence in sentences.items():
        assert sentence in shown("debug", *arguments, code=1)


async def test_a_call_that_raised_and_one_of_a_deadline_can_be_made_again() -> None:
    broken = {"bad"}
    async with open_log("memory://", make_shop(broken)) as log:
        await log.publish(Ordered(order_id="bad", cents=5), idempotency_key="bad")
        await log.publish(Ordered(order_id="bad", cents=6))
        await log.publish(Ordered(order_id="late", cents=5, patience_s=0))
        async with Runtime(log, ports={"gateway": Outside(refuses={"late"})}) as runtime:
            while not await everything(log, "expiries"):
                await runtime.idle()
        first, second = [r for r in await everything(log, "orders.requests") if r.subject == "bad"]
        (raised,) = await decisions_about(log, "bad", first.event_id)
        assert raised.arguments == (Order(count=1), Ordered(order_id="bad", cents=5))
        with pytest.raises(RuntimeError, match="a bug in the handler"):
            raised.handler.call(*raised.arguments)
        with pytest.raises(ContractError, match="order called no handler then: Ordered was parked: waits behind"):
            await decisions_about(log, "bad", second.event_id)
        (expired,) = await everything(log, "expiries")
        for cause in ("expires_at", expired.event_id):
            (passed,) = await decisions_about(log, "late", cause)
            assert passed.handler.call(*passed.arguments) == passed.said
        with pytest.raises(UnknownKey, match="decider order knows nothing of key 'nobody'"):
            await decisions_about(log, "nobody", "expires_at", "order")


async def test_an_answer_of_an_effect_stops_where_it_was_handled() -> None:
    async with open_log("memory://", make_shop(set())) as log:
        await log.publish(Ordered(order_id="1", cents=5))
        await settle(log)
        (charged,) = [r for r in await everything(log, "charges") if r.type == "Charged"]
        (handled,) = await decisions_about(log, "1", charged.event_id)
        assert handled.handler.name == "quiet"
        assert handled.arguments[0] == Order(count=1, charged=1)


# --- debugpy


@pytest.mark.skipif(sys.gettrace() is not None, reason="one debugger at a time")
def test_an_ide_attaches_and_stands_in_the_handler(filled: str, ids: dict[str, str]) -> None:
    pytest.importorskip("debugpy")
    port = free_port()
    arguments = ("declined", ids["PaymentFailed"], "--decider", "payment")
    with subprocess.Popen(
        command(filled, *arguments, "--debugger", "debugpy", "--port", str(port)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert (
                process.stdout.readline() == f"Waiting for a debugger to attach to 127.0.0.1:{port}; Ctrl-C ends it.\n"
            )
            with Ide(port) as ide:
                ide.attach()
                name, line, variables = ide.stopped()
                assert "payment.follow on PaymentFailed" in process.stdout.readline()
                assert process.stdout.readline() == "emitted then: nothing\n"
                assert process.stdout.readline() == "emits the same now\n"
            assert process.wait(120) == 0
        finally:
            process.kill()
    assert (name, line) == ("follow", first_line(follow))
    assert variables["event"] == repr(PaymentFailed(order_id="declined", reason="declined"))
    assert variables["payment"].startswith("Payment(stage=")


def test_debugpy_that_is_missing_or_cannot_have_its_port_is_explained(
    shown: Print, ids: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Taken:
        def listen(self, _endpoint: object) -> None:
            raise RuntimeError("Address already in use")

    def missing(name: str) -> object:
        raise ModuleNotFoundError(name)

    arguments = ("debug", "declined", ids["PaymentFailed"], "--debugger", "debugpy")
    monkeypatch.setattr(debugging, "import_module", missing)
    assert "debugpy is not installed here: pip install 'eventlib-sagas[debug]'" in shown(*arguments, code=1)
    monkeypatch.setattr(debugging, "import_module", lambda _name: Taken())
    assert "debugpy cannot listen on port 5678, give another one with --port" in shown(*arguments, code=1)
