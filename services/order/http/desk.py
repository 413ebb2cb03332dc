"""The desk: takes orders and wishes to cancel, puts them on the log, and waits for what becomes of them."""

from contextlib import suppress
from functools import partial

from eventlib import EventlibError
from eventlib.http import Accepted, Refusal, RequestPlace, SagaApi, refused_field
from eventlib.identity import Principal
from services.order.events import CancelSubmitted, OrderLine, OrderSubmitted, ProductListed
from services.order.http.models import WantedOrder, cancellation_of
from services.order.index import Found, OrderIndex


class Desk:
    """Takes requests in, each once, at the catalogue's prices of its first time."""

    def __init__(self, index: OrderIndex, api: SagaApi[OrderSubmitted]) -> None:
        self._index = index
        self._api = api
        self._requests = api.requests
        api.metrics.declare("cancels_accepted", "Wishes to cancel put on the log.")

    async def place(
        self, wanted: WantedOrder, idempotency_key: str | None, caller: Principal
    ) -> Accepted[OrderSubmitted]:
        """Place an order once, wait for its decision, and return what was accepted, whether or not it is decided.

        An idempotency key is the caller's own. Raises: Refusal; LogUnavailable and the like when nothing was accepted.
        """
        make = partial(self._order_of, wanted)
        return await self._api.submit(wanted, idempotency_key, caller, make, work=len(wanted.lines))

    async def cancel(self, order_id: str, caller: Principal) -> RequestPlace | None:
        """Ask to cancel an order that there is, wait for what becomes of it, and return where the request stands.

        None when that was settled before. Raises: Refusal; LogUnavailable and the like when nothing was accepted.
        """
        found = await self._placed(order_id)
        if found is not None and (found.order.ended_at is not None or found.order.reason):
            return None
        place = await self._requests.publish(
            CancelSubmitted(order_id=order_id), f"http/cancel/{order_id}", caller=caller
        )
        self._api.metrics.count("cancels_accepted")
        with suppress(EventlibError):  # what is on the log is accepted, whatever becomes of the index
            if await self._requests.decided(place):
                wait_s = self._api.config.decision_s
                await self._index.until(order_id, lambda: self._is_settled(order_id), wait_s)
        return place

    async def _placed(self, order_id: str) -> Found | None:
        """Return an order that was submitted, perhaps just now; None when it is not decided yet."""
        found, submitted = self._index.order(order_id), self._index.first(order_id, OrderSubmitted)
        if found is None and submitted is not None:
            await self._requests.decided(RequestPlace.of(submitted))
            found = self._index.order(order_id)
        return found

    def _is_settled(self, order_id: str) -> bool:
        found = self._index.order(order_id)
        return found is not None and cancellation_of(found.order) != "pending"

    async def _order_of(self, wanted: WantedOrder, order_id: str) -> OrderSubmitted | Accepted[OrderSubmitted]:
        """Return the request for an order; what was accepted before, if only now that shows.

        Raises: Refusal, by the log as it is now, not as an index that is behind had it; ProjectionBehind.
        """
        try:
            return self._priced(wanted, order_id)
        except Refusal:
            await self._api.events.first(order_id)
            await self._index.knows_products([line.sku for line in wanted.lines], self._api.config.decision_s)
        return await self._requests.repeated(order_id, wanted) or self._priced(wanted, order_id)

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


def _refuse_other_currency(product: ProductListed, wanted: WantedOrder, number: int) -> None:
    if product.currency != wanted.currency:
        sentence = f"lines[{number}] is sold in {product.currency}, not in {wanted.currency}"
        raise refused_field("body", "currency", sentence, "currency")
