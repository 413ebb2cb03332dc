"""Places the orders of a file that the log does not have yet, and writes down why others are refused."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TextIO

from eventlib import Publication
from eventlib.spi import Codec, contract_of
from services.importing.intake import Intake, Known, content_of
from services.importing.orders import Reason, Refusal
from services.order.events import OrderSubmitted

CONTENT_HEADER = "content"
"""The header that holds the digest of an order's content (16 hex digits), so that it is compared without decoding."""

_MOST_BYTES = contract_of(OrderSubmitted).topic.max_event_bytes - 1_000
"""Leaves room for what the order service adds when it emits OrderPlaced."""

_LINE_BYTES = 40
_CHARACTER_BYTES = 4


@dataclass(slots=True)
class Placing:
    """How many orders were placed now, were on the log `before`, and were refused."""

    placed: int = 0
    before: int = 0
    refused: Counter[Reason] = field(default_factory=Counter)


def to_place(intake: Intake, codec: Codec, found: Placing, rejects: TextIO | None) -> Iterator[OrderSubmitted]:
    """Yield, in file order, each order that the log does not have yet; count all in `found`.

    Each refusal is one JSON object a line in `rejects`: `order_id`, `reason`, `detail`.
    """
    for line, known, result in intake.results():
        order = result if isinstance(result, Refusal) else _refused(result, known, codec) or result
        if isinstance(order, Refusal):
            found.refused[order.reason] += 1
            if rejects is not None:
                row = {
                    "order_id": order.order_id,
                    "reason": order.reason,
                    "detail": f"file line {line}: {order.detail}",
                }
                rejects.write(json.dumps(row, ensure_ascii=False) + "\n")
        elif known is Known.NOTHING:
            found.placed += 1
            yield order
        else:
            found.before += 1


def _refused(order: OrderSubmitted, known: Known, codec: Codec) -> Refusal | None:
    if known is Known.CONFLICT:
        detail = f"the log has an order {order.order_id} already, with other content"
        return Refusal(order.order_id, Reason.CONFLICT, detail)
    most = sum(_LINE_BYTES + _CHARACTER_BYTES * len(line.sku) for line in order.lines)
    if known is Known.NOTHING and most > _MOST_BYTES and (size := len(codec.encode(order))) > _MOST_BYTES:
        detail = f"the order takes {size:,} bytes, and {_MOST_BYTES:,} is the most"
        return Refusal(order.order_id, Reason.MALFORMED, detail)
    return None


def order_request(order: OrderSubmitted) -> Publication:
    """Return the request to place an order: a second import gives it the same id."""
    return Publication(order, f"import/{order.order_id}", headers={CONTENT_HEADER: content_of(order)})
