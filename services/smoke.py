"""A smoke test of a running shop: places orders over HTTP, waits for their ends, checks the log's invariants."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from secrets import token_hex
from time import monotonic
from typing import Any

import httpx

from eventlib import Decider, Event, EventLog, Publication, TerminalError, open_log
from eventlib.config import credentials
from eventlib.errors import UndecodableRecord, UnknownKey
from eventlib.http import http_client
from eventlib.invariants import InvariantChecker, Violation, judged_by_events
from eventlib.queries import event_topics, in_order, state_of, tail
from services import shop
from services.importing.catalogue import delivery_request
from services.order.events import ProductListed
from services.stock.shelf import shelves

PATIENCE_S = 120.0
UNITS_AN_ORDER = 5
"""The most units of a product in one order, except for the one that requests too many."""
_SKUS = 3
_PRICE_CENTS = 250
_AT_ONCE = 8
_POLL_S = 0.2
_UNKNOWN = "urn:shop:problem:unknown-product"
_COUNTED = ("placed", "completed", "cancelled")
_CLOCKS_DIFFER = timedelta(minutes=5)


class SmokeFailed(TerminalError):
    """The shop failed the smoke test; the message names what was observed."""


@dataclass(frozen=True, slots=True)
class SmokeConfig:
    """The load of a smoke test; `patience_s` limits each step (seconds).

    With `views`, the counts of order's live views at that address are checked too.
    """

    api: str
    log_url: str
    orders: int = 20
    patience_s: float = PATIENCE_S
    views: str | None = None

    @property
    def units(self) -> int:
        """Units of each product to deliver: enough for all orders except the oversized one."""
        return self.orders * UNITS_AN_ORDER


@dataclass(slots=True)
class Smoked:
    """The result: how orders ended, and what failed."""

    orders: int
    ends: dict[str, int] = field(default_factory=dict)
    events: int = 0
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)


async def smoke(config: SmokeConfig) -> Smoked:
    """Place orders for products of its own, wait until all end, and check their events against the invariants.

    One in four is posted twice under one key, one in five is cancelled at once, and one requests more than is in stock.
    Raises: SmokeFailed when the shop does not answer, or takes too long; what opening the log raises.
    """
    began, since = monotonic(), datetime.now(UTC) - _CLOCKS_DIFFER
    run, found = token_hex(4), Smoked(config.orders)
    skus = [f"smoke-{run}-{number}" for number in range(_SKUS)]
    async with http_client(base_url=config.api, timeout=config.patience_s, headers=credentials()) as client:
        await _patiently(config, "the API is not ready", lambda: _answers(client, "/readyz"))
        async with open_log(config.log_url, shop) as log:
            await _fill(log, run, skus, config)
            ended = await _through(
                client, [_OrderSpec(run, number, skus, config) for number in range(config.orders)], found
            )
            judge_ends(ended, config, found)
            await judge_log(log, since, {"order_id": {each["order_id"] for each in ended}, "sku": set(skus)}, found)
    if config.views is not None:
        await _see_counted(config.views, run, ended, config)
    found.seconds = monotonic() - began
    return found


@dataclass(frozen=True, slots=True)
class _OrderSpec:
    """One order to place."""

    run: str
    number: int
    skus: list[str]
    config: SmokeConfig

    @property
    def is_oversized(self) -> bool:
        return self.number == 0

    @property
    def key(self) -> str:
        return f"smoke-{self.run}-{self.number}"

    @property
    def body(self) -> dict[str, Any]:
        lines = [
            {"sku": sku, "quantity": self.number % UNITS_AN_ORDER + 1} for sku in self.skus[: self.number % _SKUS + 1]
        ]
        if self.is_oversized:
            lines[0]["quantity"] = self.config.units + 1
        return {"customer_id": self.run, "country": "United Kingdom", "currency": "GBP", "lines": lines}


async def _see_counted(views: str, run: str, ended: list[dict[str, Any]], config: SmokeConfig) -> None:
    """Wait until live views have counted the orders, and how they ended. Raises: SmokeFailed."""
    wanted = Counter({"placed": len(ended), **Counter(each["status"] for each in ended)})

    async with http_client(base_url=views, timeout=config.patience_s, headers=credentials()) as client:

        async def are_counted() -> bool:
            answer = (await client.get("/views/customers", params={"key": run})).raise_for_status().json()
            counted = Counter({name: row.get(name, 0) for row in answer["rows"] for name in _COUNTED})
            if counted == wanted:
                return True
            raise ValueError(f"they have {dict(counted)} instead of {dict(wanted)}")

        await _patiently(config, f"the live views at {views} do not count the orders", are_counted)


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


async def _through(client: httpx.AsyncClient, specs: Iterable[_OrderSpec], found: Smoked) -> list[dict[str, Any]]:
    """Place orders, some at a time, and return them as they ended. Raises: SmokeFailed."""
    gate = asyncio.Semaphore(_AT_ONCE)
    try:
        return await asyncio.gather(*(_order(client, gate, spec, found) for spec in specs))
    except httpx.HTTPError as error:
        raise SmokeFailed(f"{client.base_url} gave an unexpected answer: {error}") from error


async def _order(client: httpx.AsyncClient, gate: asyncio.Semaphore, spec: _OrderSpec, found: Smoked) -> dict[str, Any]:
    """Place an order, and return it as it is when it has ended."""
    async with gate:
        order_id = await _placed(client, spec)
        if spec.number % 4 == 1 and await _placed(client, spec) != order_id:
            found.wrong.append(f"{order_id}: the same request under the same key has led to another order")
        if spec.number % 5 == 2:  # noqa: PLR2004  some of them
            await _cancel(client, order_id, spec.config)
        path = f"/orders/{order_id}"
        ended = dict[str, Any]()

        async def has_ended() -> bool:
            ended.update((await client.get(path)).raise_for_status().json())
            return ended["status"] in {"completed", "cancelled"}

        await _patiently(spec.config, f"order {order_id} does not end", has_ended)
        return ended


async def _cancel(client: httpx.AsyncClient, order_id: str, config: SmokeConfig) -> None:
    async def is_answered() -> bool:
        answer = await client.post(f"/orders/{order_id}/cancel")
        if answer.status_code not in {httpx.codes.CONFLICT, httpx.codes.SERVICE_UNAVAILABLE}:  # too late; not yet
            answer.raise_for_status()
        return answer.status_code != httpx.codes.SERVICE_UNAVAILABLE

    await _patiently(config, f"the cancellation of order {order_id} is not answered", is_answered)


async def _placed(client: httpx.AsyncClient, spec: _OrderSpec) -> str:
    """Place an order, once the catalogue has its products, and return its id."""
    answered = dict[str, Any]()

    async def is_taken() -> bool:
        answer = await client.post("/orders", json=spec.body, headers={"Idempotency-Key": spec.key})
        if answer.is_server_error or _UNKNOWN in answer.text:  # not yet
            return False
        if answer.is_error:
            raise SmokeFailed(f"{spec.config.api} refuses an order: {answer.text}")
        answered.update(answer.json())
        return True

    await _patiently(spec.config, "the API does not take orders for products that are listed", is_taken)
    return str(answered["order_id"])


async def _patiently(config: SmokeConfig, what: str, check: Callable[[], Any]) -> None:
    """Poll until the check passes. Raises: SmokeFailed."""
    seen = ""
    try:
        async with asyncio.timeout(config.patience_s):
            while True:
                try:
                    if await check():
                        return
                except (httpx.HTTPError, KeyError, ValueError) as error:
                    seen = f": {type(error).__name__} {error}"
                await asyncio.sleep(_POLL_S)
    except TimeoutError as error:
        raise SmokeFailed(f"{config.api}: {what} within {config.patience_s:g} s{seen}") from error


async def _answers(client: httpx.AsyncClient, path: str) -> bool:
    return (await client.get(path)).raise_for_status().is_success


def judge_ends(ended: Iterable[Mapping[str, Any]], config: SmokeConfig, found: Smoked) -> None:
    """Check each order's end against its amounts."""
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


async def judge_log(log: EventLog, since: datetime, keys: Mapping[str, set[str]], found: Smoked) -> None:
    """Check all events and states of these keys against the invariants."""
    invariants = judged_by_events(shop.invariants)
    watch, violations = InvariantChecker(invariants), list[Violation]()
    records = [each async for chunk in tail(log.port, [t.name for t in event_topics(log)], since) for each in chunk]
    for record, event in await log.decode_many(in_order(records)):
        if isinstance(event, UndecodableRecord):
            found.wrong.append(str(event))
        elif event is not None and _is_about(event, keys):
            found.events += 1
            violations += watch.emitted(event, record.meta())
    for decider in {source for invariant in invariants for source in invariant.sources if isinstance(source, Decider)}:
        for key in keys.get(decider.key or "", ()):
            with suppress(UnknownKey):
                violations += watch.changed(decider, key, (await state_of(log, decider.name, key)).state)
    violations += watch.rest()
    found.wrong += {(each.invariant.name, each.key): str(each) for each in violations}.values()


def _is_about(event: Event, keys: Mapping[str, set[str]]) -> bool:
    return any(getattr(event, name, None) in known for name, known in keys.items())
