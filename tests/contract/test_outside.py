"""What a gateway and a carrier promise, whether they are simulated in this process or answer over HTTP."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from eventlib.errors import OutcomeUnknown, TerminalError
from services.dispatch.ports import Booked, Recalled, Undeliverable
from services.payment.ports import Charged, Declined, Refunded, Voided
from tests.connections import opened_from_here
from tests.contract.outsides import Opening, Outside, over_http, simulated


@pytest.fixture(params=[simulated, over_http], ids=["simulated", "http"])
def opened(request: pytest.FixtureRequest) -> Opening:
    opening: Opening = request.param
    return opening


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def rows(outside: Outside, query: str) -> list[Any]:
    connection = sqlite3.connect(outside.ledger)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


async def unknown(call: Awaitable[object]) -> None:
    with pytest.raises(OutcomeUnknown):
        await call


async def terminal(call: Awaitable[object]) -> None:
    with pytest.raises(TerminalError):
        await call


async def test_a_charge_is_made_once_however_often_it_is_asked(opened: Opening, path: Path) -> None:
    async with opened(path) as outside:
        answers = [await outside.gateway.charge("c", "1", 750, "GBP") for _ in range(3)]
        assert answers == [Charged()] * 3
        query = "SELECT key, order_id, amount_cents, currency, outcome FROM charges"
        assert rows(outside, query) == [("c", "1", 750, "GBP", "taken")]


async def test_the_same_charge_asked_many_times_at_once_is_made_once(opened: Opening, path: Path) -> None:
    async with opened(path) as outside:
        answers = await asyncio.gather(*(outside.gateway.charge("c", "1", 750, "GBP") for _ in range(20)))
        assert answers == [Charged()] * 20
        assert rows(outside, "SELECT count(*) FROM charges") == [(1,)]


async def test_a_refusal_is_a_value_and_stays(opened: Opening, path: Path) -> None:
    async with opened(path, gateway={"decline": 1.0}) as outside:
        assert [await outside.gateway.charge("c", "1", 750, "GBP") for _ in range(2)] == [Declined("declined")] * 2
    async with opened(path) as outside:
        assert await outside.gateway.charge("c", "1", 750, "GBP") == Declined("declined")
        assert await outside.gateway.void("c") == Voided(0)


@pytest.mark.parametrize("other", [("1", 751, "GBP"), ("1", 750, "EUR"), ("2", 750, "GBP")])
async def test_a_key_is_for_one_charge(opened: Opening, path: Path, other: tuple[str, int, str]) -> None:
    async with opened(path) as outside:
        await outside.gateway.charge("c", "1", 750, "GBP")
        await terminal(outside.gateway.charge("c", *other))


async def test_a_void_returns_the_money_and_refuses_the_key_for_ever(opened: Opening, path: Path) -> None:
    async with opened(path) as outside:
        await outside.gateway.charge("c", "1", 750, "GBP")
        assert [await outside.gateway.void("c") for _ in range(2)] == [Voided(750)] * 2
        assert await outside.gateway.charge("c", "1", 750, "GBP") == Declined("voided")


async def test_a_charge_that_lands_after_its_void_is_declined(opened: Opening, path: Path) -> None:
    async with opened(path) as outside:
        assert await outside.gateway.void("c") == Voided(0)
        assert await outside.gateway.charge("c", "1", 750, "GBP") == Declined("voided")
        assert rows(outside, "SELECT * FROM charges") == []


async def test_a_refund_is_made_once_for_each_key_and_never_exceeds_the_charge(opened: Opening, path: Path) -> None:
    async with opened(path) as outside:
        await outside.gateway.charge("c", "1", 750, "GBP")
        await terminal(outside.gateway.refund("more", "c", 751, "GBP"))
        assert [await outside.gateway.refund("r", "c", 750, "GBP") for _ in range(2)] == [Refunded()] * 2
        await terminal(outside.gateway.refund("again", "c", 750, "GBP"))
        assert rows(outside, "SELECT key, charge_key, amount_cents FROM refunds") == [("r", "c", 750)]


async def test_an_answer_may_be_lost_after_the_charge_was_made(opened: Opening, path: Path) -> None:
    async with opened(path, gateway={"lost": 1.0}) as outside:
        await unknown(outside.gateway.charge("c", "1", 750, "GBP"))
        assert rows(outside, "SELECT outcome FROM charges") == [("taken",)]
    async with opened(path) as outside:
        assert await outside.gateway.charge("c", "1", 750, "GBP") == Charged()
        assert rows(outside, "SELECT count(*) FROM charges") == [(1,)]


async def test_a_call_may_never_arrive(opened: Opening, path: Path) -> None:
    async with opened(path, gateway={"timeout": 1.0}) as outside:
        await unknown(outside.gateway.charge("c", "1", 750, "GBP"))
        assert rows(outside, "SELECT * FROM charges") == []


async def test_a_call_that_arrives_twice_acts_once(opened: Opening, path: Path) -> None:
    async with opened(path, gateway={"duplicate": 1.0}, carrier={"duplicate": 1.0}) as outside:
        assert await outside.gateway.charge("c", "1", 750, "GBP") == Charged()
        assert await outside.gateway.refund("r", "c", 750, "GBP") == Refunded()
        assert await outside.carrier.book("d", "1", "France") == Booked("P-d")
        assert await outside.carrier.recall("e") == Recalled()
        assert rows(outside, "SELECT count(*) FROM charges") == rows(outside, "SELECT count(*) FROM refunds") == [(1,)]


async def test_a_silent_gateway_never_answers_a_charge_but_its_void(opened: Opening, path: Path) -> None:
    async with opened(path, gateway={"silent": 1.0}) as outside:
        keys = [f"c{number}" for number in range(16)]
        await asyncio.gather(*(unknown(outside.gateway.charge(key, key, 750, "GBP")) for key in keys))
        returned = {(await outside.gateway.void(key)).returned_cents for key in keys}
        assert returned == {0, 750}, "half of the silent charges were made"


async def test_faults_pass_when_a_call_is_repeated(opened: Opening, path: Path) -> None:
    async with opened(path, gateway={"timeout": 0.2, "lost": 0.3, "duplicate": 0.3}) as outside:

        async def insist(key: str) -> None:
            for _ in range(50):
                with suppress(OutcomeUnknown):
                    assert await outside.gateway.charge(key, key, 1, "GBP") == Charged()
                    return
            raise AssertionError(key)

        await asyncio.gather(*(insist(f"c{number}") for number in range(30)))
        assert rows(outside, "SELECT count(*) FROM charges WHERE outcome = 'taken'") == [(30,)]


async def test_a_parcel_is_booked_once(opened: Opening, path: Path) -> None:
    async with opened(path) as outside:
        assert [await outside.carrier.book("d", "1", "France") for _ in range(2)] == [Booked("P-d")] * 2
        assert rows(outside, "SELECT key, order_id, country, outcome FROM parcels") == [("d", "1", "France", "booked")]
        await terminal(outside.carrier.book("d", "2", "France"))


async def test_an_undeliverable_parcel_stays_so(opened: Opening, path: Path) -> None:
    async with opened(path, carrier={"undeliverable": 1.0}) as outside:
        assert await outside.carrier.book("d", "1", "France") == Undeliverable("undeliverable")
    async with opened(path) as outside:
        assert await outside.carrier.book("d", "1", "France") == Undeliverable("undeliverable")
        assert await outside.carrier.recall("d") == Recalled()


@pytest.mark.parametrize(("departed", "answer"), [(0.0, Recalled()), (1.0, Booked("P-d"))])
async def test_a_booked_parcel_may_have_left_when_it_is_recalled(
    opened: Opening, path: Path, departed: float, answer: Booked | Recalled
) -> None:
    async with opened(path, carrier={"departed": departed}) as outside:
        await outside.carrier.book("d", "1", "France")
        assert [await outside.carrier.recall("d") for _ in range(2)] == [answer] * 2


async def test_a_recalled_key_is_refused_for_ever(opened: Opening, path: Path) -> None:
    async with opened(path) as outside:
        assert await outside.carrier.recall("d") == Recalled()
        assert await outside.carrier.book("d", "1", "France") == Undeliverable("recalled")


async def test_a_silent_carrier_is_final_when_it_is_asked_to_cancel(opened: Opening, path: Path) -> None:
    async with opened(path, carrier={"silent": 1.0}) as outside:
        keys = [f"d{number}" for number in range(24)]
        await asyncio.gather(*(unknown(outside.carrier.book(key, key, "France")) for key in keys))
        first = [await outside.carrier.recall(key) for key in keys]
        assert {type(answer) for answer in first} == {Booked, Recalled}
        assert [await outside.carrier.recall(key) for key in keys] == first


async def test_a_ledger_that_cannot_be_written_is_no_answer_and_nothing_was_done(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = opened_from_here(monkeypatch)
    async with over_http(path) as outside:
        gateway, carrier = outside.gateway, outside.carrier
        await gateway.charge("old", "0", 100, "GBP")
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: gateway.charge("c", "1", 750, "GBP"),
            lambda: gateway.refund("r", "old", 30, "GBP"),
            lambda: gateway.void("v"),
            lambda: carrier.book("d", "1", "France"),
            lambda: carrier.recall("e"),
        ]
        (ledger,) = files[path.name]
        ledger.execute("PRAGMA query_only=1")
        for call in calls:
            with pytest.raises(OutcomeUnknown, match="status 503"):
                await call()
        ledger.execute("PRAGMA query_only=0")
        for table, count in (("charges", 1), ("refunds", 0), ("voids", 0), ("parcels", 0)):
            assert rows(outside, f"SELECT count(*) FROM {table}") == [(count,)]  # noqa: S608  names from above
        answers = [await call() for call in calls]
        assert answers == [Charged(), Refunded(), Voided(0), Booked("P-d"), Recalled()]
