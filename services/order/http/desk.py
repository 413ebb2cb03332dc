"""The desk: takes orders and wishes to cancel, puts them on the log, and waits for what becomes of them."""

import asyncio
from contextlib import suppress
from hashlib import blake2b
from secrets import token_hex
from time import monotonic
from typing import NamedTuple

from eventlib import ContractError, EventlibError, EventLog, Position, RetryableError
from eventlib.errors import LogFull
from eventlib.spi import Record
from services.order.events import CancelSubmitted, OrderLine, OrderSubmitted, ProductListed
from services.order.http.config import ApiConfig
from services.order.http.metrics import Metrics
from services.order.http.models import WantedOrder, cancellation_of
from services.order.http.problems import FieldError, Refusal, refused_field, try_later
from services.order.index import REQUESTS, Found, OrderIndex

FINGERPRINT = "http-body"
"""The header of a request that holds the hash of the HTTP body it came from (32 hex digits)."""

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


class Accepted(NamedTuple):
    """An order's request on the log: where it stands, and what it says; None where that cannot be read."""

    order_id: str
    place: Place
    request: OrderSubmitted | None


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

    async def place(self, wanted: WantedOrder, key: str | None) -> Accepted:
        """Place an order once, wait for its decision, and return what was accepted, whether or not it is decided.

        Raises: Refusal; LogUnavailable and the like when nothing was accepted.
        """
        order_id = token_hex(_ID_BYTES) if key is None else _digest(f"order\x1f{key}")
        fingerprint = blake2b(wanted.model_dump_json().encode(), digest_size=16).hexdigest()
        request = self._placed_before(order_id, fingerprint) or await self._order_of(wanted, order_id, fingerprint)
        if isinstance(request, Accepted):
            self._metrics.count("orders_repeated")
            await self._decided(request.place)
            return request
        await self._refuse_over_backlog()
        place = await self._publish(request, fingerprint, None if key is None else f"http/order/{key}")
        self._metrics.count("orders_accepted")
        await self._decided(place)
        accepted = Accepted(order_id, place, request)
        return accepted if key is None else await self._first(accepted, fingerprint)

    async def cancel(self, order_id: str) -> Place | None:
        """Ask to cancel an order that there is, wait for what becomes of it, and return where the request stands.

        None when that was settled before. Raises: Refusal; LogUnavailable and the like when nothing was accepted.
        """
        found = await self._placed(order_id)
        if found is not None and (found.order.ended_at is not None or found.order.reason):
            return None
        await self._refuse_over_backlog()
        place = await self._publish(CancelSubmitted(order_id=order_id), None, f"http/cancel/{order_id}")
        self._metrics.count("cancels_accepted")
        with suppress(EventlibError):  # what is on the log is accepted, whatever becomes of the index
            if await self._is_decided(place):
                await self._index.until(order_id, lambda: self._is_settled(order_id), self._config.decision_s)
        return place

    async def backlog(self) -> int:
        """Return how many requests wait for the order service. Raises: LogUnavailable."""
        return await self._index.backlog(REQUESTS)

    async def _placed(self, order_id: str) -> Found | None:
        """Return an order that was submitted, perhaps just now; None when it is not decided yet."""
        found, submitted = self._index.order(order_id), self._index.first(order_id, OrderSubmitted)
        if found is None and submitted is not None:
            await self._is_decided(_place_of(submitted))
            found = self._index.order(order_id)
        return found

    async def _decided(self, place: Place) -> None:
        """Wait for a decision on what is on the log: it stays accepted, whatever becomes of the index."""
        with suppress(EventlibError):
            await self._is_decided(place)

    async def _is_decided(self, place: Place) -> bool:
        return await self._index.decided(REQUESTS, *place, self._config.decision_s)

    def _is_settled(self, order_id: str) -> bool:
        found = self._index.order(order_id)
        return found is not None and cancellation_of(found.order) != "pending"

    def _placed_before(self, order_id: str, fingerprint: str) -> Accepted | None:
        first = self._index.first(order_id, OrderSubmitted)
        return None if first is None else self._repeated(order_id, first, fingerprint)

    async def _first(self, accepted: Accepted, fingerprint: str) -> Accepted:
        """Return what counts under a key: the request that is first on the log, also while the index is behind."""
        order_id, place, _ = accepted
        try:
            async with asyncio.timeout(self._config.append_s):
                first = await self._index.first_before(order_id, OrderSubmitted, place.offset)
        except (EventlibError, TimeoutError) as error:
            raise try_later(
                "outcome-unknown",
                "an order was placed under this Idempotency-Key, and it is not known yet whether by this request: "
                "repeat it with the same key",
                extra={"order_id": order_id},
            ) from error
        return accepted if first is None else self._repeated(order_id, first, fingerprint)

    def _repeated(self, order_id: str, first: Record, fingerprint: str) -> Accepted:
        if (FINGERPRINT, fingerprint.encode()) not in first.headers:
            raise Refusal(
                422,
                "idempotency-key-reused",
                "this Idempotency-Key was used for another order: send the same body again, or another key",
                errors=[FieldError(place="header", field="Idempotency-Key", message="was used with another body")],
                extra={"order_id": order_id},
            )
        return Accepted(order_id, _place_of(first), self._index.request_in(first))

    async def _order_of(self, wanted: WantedOrder, order_id: str, fingerprint: str) -> OrderSubmitted | Accepted:
        """Return the request for an order; what was accepted before, if only now that shows.

        Raises: Refusal, by the log as it is now, not as an index that is behind had it; ProjectionBehind.
        """
        try:
            return self._priced(wanted, order_id)
        except Refusal:
            await self._index.first_current(order_id, OrderSubmitted, self._config.decision_s)
            await self._index.knows_products([line.sku for line in wanted.lines], self._config.decision_s)
        return self._placed_before(order_id, fingerprint) or self._priced(wanted, order_id)

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
            async with asyncio.timeout(self._config.append_s):
                self._counted, self._counted_at = await self.backlog(), now
        if self._counted >= self._config.backlog:
            self._metrics.count("refused_over_backlog")
            raise try_later("backlog", f"{self._config.backlog} requests wait already: come back when some are done")

    async def _publish(
        self, event: OrderSubmitted | CancelSubmitted, fingerprint: str | None, key: str | None
    ) -> Place:
        headers = {} if fingerprint is None else {FINGERPRINT: fingerprint}
        try:
            async with asyncio.timeout(self._config.append_s):
                at: Position = await self._log.publish(event, headers=headers, idempotency_key=key)
        except ContractError as error:
            raise Refusal(413, "too-large", "the order does not fit into one event: split it") from error
        except LogFull:
            raise  # nothing of it was written
        except (RetryableError, TimeoutError) as error:
            raise try_later(
                "outcome-unknown",
                "the log did not say whether it has taken this: repeat it with the same Idempotency-Key; without one, "
                f"see first whether there is an order {event.order_id}, now and in a while",
                extra={"order_id": event.order_id},
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
