"""A smoke test of a shop that runs: orders are placed over HTTP, all of them end, and the laws hold on its log."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from secrets import token_hex
from time import monotonic
from typing import Any

import httpx

from eventlib.decider import Decider
from eventlib.errors import Terminal, UndecodableRecord, UnknownKey
from eventlib.event import Event
from eventlib.eventlog import EventLog, Publication
from eventlib.inspection.decoding import event_topics
from eventlib.inspection.state import state_of
from eventlib.inspection.tail import tail
from eventlib.laws import Breach, Watch, judged_by_events
from eventlib.log.port import Record
from eventlib.opening import open_log
from services import shop
from services.importing.requests import delivery_request
from services.order.events import ProductListed
from services.stock.shelf import shelves

PATIENCE_S = 120.0

_SKUS = 3
_UNITS_AN_ORDER = 5
_PRICE_CENTS = 250
_AT_ONCE = 8
_LOOK_S = 0.2
_UNKNOWN = "urn:shop:problem:unknown-product"
_CLOCKS_DIFFER = timedelta(minutes=5)


class SmokeFailed(Terminal):
    """The shop does not do what it should; the sentence says what was seen."""


@dataclass(frozen=True, slots=True)
class SmokeConfig:
    """How much is asked of the shop: `patience_s` is how long it may take to answer, and to end all orders (seconds)."""

    api: str
    log_url: str
    orders: int = 20
    patience_s: float = PATIENCE_S

    @property
    def units(self) -> int:
        """How many of each product are delivered: enough for all orders but the one that wants more."""
        return self.orders * _UNITS_AN_ORDER


@dataclass(slots=True)
class Smoked:
    """What became of it: how orders ended, and what was wrong."""

    orders: int
    ends: dict[str, int] = field(default_factory=dict)
    events: int = 0
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)


async def smoke(config: SmokeConfig) -> Smoked:
    """Place orders for products of its own, see all of them end, and hold what the log says of them against the laws.

    One in four is posted twice under one key, one in five is cancelled at once, and one wants more than there is.
    Raises: SmokeFailed when the shop does not answer, or takes too long; what opening the log raises.
    """
    began, since = monotonic(), datetime.now(UTC) - _CLOCKS_DIFFER
    run, found = token_hex(4), Smoked(config.orders)
    skus = [f"smoke-{run}-{number}" for number in range(_SKUS)]
    async with httpx.AsyncClient(base_url=config.api, timeout=config.patience_s) as client:
        await _patiently(config, "the API is not ready", lambda: _answers(client, "/readyz"))
        async with open_log(config.log_url, shop) as log:
            await _fill(log, run, skus, config)
            ended = await _through(client, [_Wish(run, number, skus, config) for number in range(config.orders)], found)
            _judge_ends(ended, config, found)
            await _judge_log(log, since, {"order_id": {each["order_id"] for each in ended}, "sku": set(skus)}, found)
    found.seconds = monotonic() - began
    return found


@dataclass(frozen=True, slots=True)
class _Wish:
    """One order that is placed."""

    run: str
    number: int
    skus: list[str]
    config: SmokeConfig

    @property
    def wants_too_much(self) -> bool:
        return self.number == 0

    @property
    def key(self) -> str:
        return f"smoke-{self.run}-{self.number}"

    @property
    def body(self) -> dict[str, Any]:
        lines = [
            {"sku": sku, "quantity": self.number % _UNITS_AN_ORDER + 1} for sku in self.skus[: self.number % _SKUS + 1]
        ]
        if self.wants_too_much:
            lines[0]["quantity"] = self.config.units + 1
        return {"customer_id": self.run, "country": "United Kingdom", "currency": "GBP", "lines": lines}


async def _fill(log: EventLog, run: str, skus: list[str], config: SmokeConfig) -> None:
    """List the products, deliver their units, and wait until these are on the shelves."""
    listed = [
        ProductListed(sku=sku, description="for a smoke test", unit_price_cents=_PRICE_CENTS, currency="GBP")
        for sku in skus
    ]
    await log.publish_many([Publication(each) for each in listed])
    await log.publish_many([delivery_request(run, sku, config.units) for sku in skus])
    for sku in skus:
        await _patiently(config, f"stock does not take {sku} in", lambda sku=sku: _is_on_hand(log, sku))  # type: ignore[misc]  # the loop's own


async def _is_on_hand(log: EventLog, sku: str) -> bool:
    try:
        return bool((await state_of(log, shelves.name, sku)).state.on_hand)
    except UnknownKey:
        return False


async def _through(client: httpx.AsyncClient, wishes: Iterable[_Wish], found: Smoked) -> list[dict[str, Any]]:
    """Place orders, some at a time, and return them as they ended. Raises: SmokeFailed."""
    gate = asyncio.Semaphore(_AT_ONCE)
    try:
        return await asyncio.gather(*(_order(client, gate, wish, found) for wish in wishes))
    except httpx.HTTPError as error:
        raise SmokeFailed(f"{client.base_url} has answered otherwise than it says: {error}") from error


async def _order(client: httpx.AsyncClient, gate: asyncio.Semaphore, wish: _Wish, found: Smoked) -> dict[str, Any]:
    """Place an order, and return it as it is when it has ended."""
    async with gate:
        order_id = await _placed(client, wish)
        if wish.number % 4 == 1 and await _placed(client, wish) != order_id:
            found.wrong.append(f"{order_id}: the same request under the same key has led to another order")
        if wish.number % 5 == 2:  # noqa: PLR2004  some of them
            await _cancel(client, order_id)
        path = f"/orders/{order_id}"
        ended = dict[str, Any]()

        async def has_ended() -> bool:
            ended.update((await client.get(path)).raise_for_status().json())
            return ended["status"] in {"completed", "cancelled"}

        await _patiently(wish.config, f"order {order_id} does not end", has_ended)
        return ended


async def _cancel(client: httpx.AsyncClient, order_id: str) -> None:
    answer = await client.post(f"/orders/{order_id}/cancel")
    if answer.status_code != httpx.codes.CONFLICT:  # it was too late for that
        answer.raise_for_status()


async def _placed(client: httpx.AsyncClient, wish: _Wish) -> str:
    """Place an order, once the catalogue has its products, and return its id."""
    answered = dict[str, Any]()

    async def is_taken() -> bool:
        answer = await client.post("/orders", json=wish.body, headers={"Idempotency-Key": wish.key})
        if answer.is_server_error or _UNKNOWN in answer.text:  # not yet
            return False
        if answer.is_error:
            raise SmokeFailed(f"{wish.config.api} refuses an order: {answer.text}")
        answered.update(answer.json())
        return True

    await _patiently(wish.config, "the API does not take orders for products that are listed", is_taken)
    return str(answered["order_id"])


async def _patiently(config: SmokeConfig, what: str, look: Callable[[], Any]) -> None:
    """Look until it is so. Raises: SmokeFailed."""
    seen = ""
    try:
        async with asyncio.timeout(config.patience_s):
            while True:
                try:
                    if await look():
                        return
                except (httpx.HTTPError, KeyError, ValueError) as error:
                    seen = f": {type(error).__name__} {error}"
                await asyncio.sleep(_LOOK_S)
    except TimeoutError as error:
        raise SmokeFailed(f"{config.api}: {what} within {config.patience_s:g} s{seen}") from error


async def _answers(client: httpx.AsyncClient, path: str) -> bool:
    return (await client.get(path)).raise_for_status().is_success


def _judge_ends(ended: Iterable[Mapping[str, Any]], config: SmokeConfig, found: Smoked) -> None:
    """See whether each order ended as it says."""
    for each in ended:
        found.ends[each["status"]] = found.ends.get(each["status"], 0) + 1
        kept = each["taken_cents"] - each["refunded_cents"]
        due = each["amount_cents"] if each["status"] == "completed" else 0
        if kept != due:
            found.wrong.append(f"{each['order_id']}: {each['status']}, and {kept} instead of {due} cents are kept")
        if any(line["quantity"] > config.units for line in each["lines"]) and each["status"] != "cancelled":
            found.wrong.append(f"{each['order_id']}: more was sold than there is")
    if "completed" not in found.ends:
        found.wrong.append("no order was completed")


async def _judge_log(log: EventLog, since: datetime, keys: Mapping[str, set[str]], found: Smoked) -> None:
    """Hold all events about these keys, and what is known of them, against the laws."""
    laws = judged_by_events(shop.laws)
    watch, breaches = Watch(laws), list[Breach]()
    records = [each async for chunk in tail(log.port, [t.name for t in event_topics(log)], since) for each in chunk]
    for record, event in await log.decode_many(_causes_first(records)):
        if isinstance(event, UndecodableRecord):
            found.wrong.append(str(event))
        elif event is not None and _is_about(event, keys):
            found.events += 1
            breaches += watch.said(event, record.meta())
    for decider in {source for law in laws for source in law.sources if isinstance(source, Decider)}:
        for key in keys.get(decider.key or "", ()):
            breaches += watch.changed(decider, key, (await state_of(log, decider.name, key)).state)
    breaches += watch.rest()
    found.wrong += {(each.law.name, each.key): str(each) for each in breaches}.values()


def _causes_first(records: Sequence[Record]) -> list[Record]:
    """Sort by time, and within a millisecond by how many of its causes are of the same: all that one led to comes together."""
    by_id = {record.id: record for record in records if record.id is not None}

    def depth(record: Record) -> int:
        cause = by_id.get(record.causation_id or "")
        return 0 if cause is None or cause.timestamp_ms != record.timestamp_ms else depth(cause) + 1

    return sorted(records, key=lambda record: (record.timestamp_ms, depth(record), *record[:3]))


def _is_about(event: Event, keys: Mapping[str, set[str]]) -> bool:
    return any(getattr(event, name, None) in known for name, known in keys.items())
