"""The desk: takes orders and wishes to cancel, puts them on the log, and waits for what becomes of them."""

import asyncio
from hashlib import blake2b
from secrets import token_hex
from time import monotonic
from typing import NamedTuple

from eventlib.event import Event, Position
from eventlib.eventlog import EventLog
from eventlib.log.port import Record
from services.order.events import CancelSubmitted, OrderLine, OrderSubmitted, ProductListed
from services.order.http.config import ApiConfig
from services.order.http.metrics import Metrics
from services.order.http.models import WantedOrder, cancellation_of
from services.order.http.problems import FieldError, Refusal, refused_field, try_later
from services.order.index import FINGERPRINT, REQUESTS, Found, OrderIndex

_ID_BYTES = 10
_COUNTED_FOR_S = 0.02


class Place(NamedTuple):
    """Where a request stands in `order.requests`."""

    partition: int
    offset: int

    @property
    def text(self) -> str:
        """As clients see it."""
        return f"{self.partition}-{self.offset}"


class Desk:
    """Takes requests in.

    Guarantee: what was answered with 202 is durable; one Idempotency-Key leads to at most one order, on whichever
    instances its requests arrive, and whatever the catalogue says by then.
    """

    def __init__(self, log: EventLog, index: OrderIndex, config: ApiConfig, metrics: Metrics) -> None:
        self._log = log
        self._index = index
        self._config = config
        self._metrics = metrics
        self._counted = 0
        self._counted_at = float("-inf")

    async def place(self, wanted: WantedOrder, key: str | None) -> tuple[str, Place]:
        """Place an order once, wait for its decision, and return its id and where its request stands.

        Raises: Refusal.
        """
        order_id = token_hex(_ID_BYTES) if key is None else _digest(f"order\x1f{key}")
        fingerprint = blake2b(wanted.model_dump_json().encode(), digest_size=16).hexdigest()
        place = self._placed_before(order_id, fingerprint)
        if place is None:
            request = self._priced(wanted, order_id)
            await self._refuse_over_backlog()
            place = await self._publish(request, fingerprint, None if key is None else f"http/order/{key}")
            self._metrics.count("orders_accepted")
            await self._index.decided(*place, self._config.decision_s)
            # With another request under this key at the same time, the one that is first on the log counts.
            place = self._placed_before(order_id, fingerprint) or place
        else:
            self._metrics.count("orders_repeated")
            await self._index.decided(*place, self._config.decision_s)
        return order_id, place

    async def cancel(self, order_id: str) -> Place | None:
        """Ask to cancel an order, wait for what becomes of it, and return where the request stands.

        None when that was settled before. Raises: Refusal.
        """
        found = await self._known(order_id)
        if found is not None and (found.order.ended_at is not None or found.order.reason):
            return None
        await self._refuse_over_backlog()
        place = await self._publish(CancelSubmitted(order_id=order_id), None, f"http/cancel/{order_id}")
        self._metrics.count("cancels_accepted")
        if await self._index.decided(*place, self._config.decision_s):
            await self._index.waiters.until(order_id, lambda: self._is_settled(order_id), self._config.decision_s)
        return place

    async def backlog(self) -> int:
        """Return how many requests wait for the order service. Raises: LogUnavailable."""
        handled = self._index.all_handled()
        partitions = range((await self._log.port.topics())[REQUESTS].partitions)
        return sum([await self._log.port.end(REQUESTS, p) - handled.get(p, 0) for p in partitions])

    async def _known(self, order_id: str) -> Found | None:
        """Return an order that was submitted, perhaps just now on another instance; None when it is not decided yet."""
        found = self._index.order(order_id)
        if found is None:
            partition = (await self._log.port.topics())[REQUESTS].partition_of(order_id.encode())
            end = await self._log.port.end(REQUESTS, partition)
            await self._index.decided(partition, end - 1, self._config.decision_s)
            found = self._index.order(order_id)
        if found is None and self._index.submitted(order_id) is None:
            raise Refusal(404, "unknown-order", f"there is no order {order_id}")
        return found

    def _is_settled(self, order_id: str) -> bool:
        found = self._index.order(order_id)
        return found is not None and cancellation_of(found.order) != "pending"

    def _placed_before(self, order_id: str, fingerprint: str) -> Place | None:
        first = self._index.submitted(order_id)
        if first is None:
            return None
        if first.fingerprint != fingerprint:
            raise Refusal(
                422,
                "idempotency-key-reused",
                "this Idempotency-Key was used for another order: send the same body again, or another key",
                errors=[FieldError(place="header", field="Idempotency-Key", message="was used with another body")],
                extra={"order_id": order_id},
            )
        return _place_of(first.record)

    def _priced(self, wanted: WantedOrder, order_id: str) -> OrderSubmitted:
        lines = list[OrderLine]()
        for number, line in enumerate(wanted.lines):
            product = self._index.product(line.sku)
            if product is None:
                raise refused_field("body", f"lines[{number}].sku", f"{line.sku!r} is not for sale", "unknown-product")
            _refuse_other_currency(product, wanted, number)
            price = product.unit_price_cents
            lines.append(OrderLine(line_no=number + 1, sku=line.sku, quantity=line.quantity, unit_price_cents=price))
        if not any(line.unit_price_cents for line in lines):
            raise refused_field("body", "lines", "there is nothing to pay: every product is free", "nothing-to-pay")
        return OrderSubmitted(
            order_id=order_id,
            customer_id=wanted.customer_id,
            country=wanted.country,
            currency=wanted.currency,
            lines=tuple(lines),
            placed_at=None,
        )

    async def _refuse_over_backlog(self) -> None:
        now = monotonic()
        if now - self._counted_at >= _COUNTED_FOR_S:
            self._counted, self._counted_at = await self.backlog(), now
        if self._counted >= self._config.backlog:
            self._metrics.count("refused_over_backlog")
            raise try_later("backlog", f"{self._config.backlog} requests wait already: come back when some are done")

    async def _publish(self, event: Event, fingerprint: str | None, key: str | None) -> Place:
        headers = {} if fingerprint is None else {FINGERPRINT: fingerprint}
        try:
            async with asyncio.timeout(self._config.append_s):
                at: Position = await self._log.publish(event, headers=headers, idempotency_key=key)
        except TimeoutError as error:
            raise try_later(
                "log-out-of-reach",
                "the log did not take this in time, and most likely never will: repeat it, with the same "
                "Idempotency-Key if there was one",
            ) from error
        return Place(at.partition, at.offset)


def _refuse_other_currency(product: ProductListed, wanted: WantedOrder, number: int) -> None:
    if product.currency != wanted.currency:
        sentence = f"lines[{number}] is sold in {product.currency}, not in {wanted.currency}"
        raise refused_field("body", "currency", sentence, "currency")


def _place_of(record: Record) -> Place:
    return Place(record.partition, record.offset)


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_ID_BYTES).hexdigest()
