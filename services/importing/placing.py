"""The second pass over an order file: each order is placed, skipped, or refused with its reason."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Self

from pydantic import ValidationError

from eventlib import Publication
from eventlib.spi import Codec, contract_of
from services.importing.known import Known, KnownOrders
from services.importing.orders import Order
from services.importing.reading import read_orders
from services.importing.refusals import Reason, Refusal
from services.importing.requests import order_request
from services.importing.source import Source
from services.order.events import OrderSubmitted

_MOST_BYTES = contract_of(OrderSubmitted).topic.max_event_bytes - 1_000
"""Leaves room for what the order service adds when it emits OrderPlaced."""

_LINE_BYTES = 40
_CHARACTER_BYTES = 4


@dataclass(slots=True)
class Placing:
    """The counts of the second pass: `before` were on the log already, `repeated` came twice with the same content."""

    placed: int = 0
    before: int = 0
    repeated: int = 0
    refused: Counter[Reason] = field(default_factory=Counter)


class Rejects:
    """Writes each refusal as one JSON object a line: `order_id`, `reason`, `detail`; nothing without a path."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: IO[str] | None = None

    def __enter__(self) -> Self:
        if self._path is not None:
            self._file = self._path.open("w", encoding="utf-8")
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def write(self, refusal: Refusal) -> None:
        """Write one refusal."""
        if self._file is None:
            return
        detail = f"file line {refusal.file_line}: {refusal.detail}"
        line = {"order_id": refusal.order_id, "reason": refusal.reason, "detail": detail}
        self._file.write(json.dumps(line, ensure_ascii=False) + "\n")


def to_place(
    source: Source, known: KnownOrders, codec: Codec, found: Placing, rejects: Rejects
) -> Iterator[tuple[Order, Publication]]:
    """Yield, in file order, each order that the log does not have yet, with its request.

    All others are counted in `found`.
    """
    for number, read in read_orders(source):
        result = read if isinstance(read, Refusal) else _sorted_out(number, read, known, codec, found)
        if isinstance(result, Refusal):
            found.refused[result.reason] += 1
            rejects.write(result)
        elif result is not None and isinstance(read, Order):
            found.placed += 1
            yield read, result


def _sorted_out(
    number: int, order: Order, known: KnownOrders, codec: Codec, found: Placing
) -> Publication | Refusal | None:
    content = order.content()
    facts = known.known(order.order_id)
    if content != known.content(order.order_id):
        detail = f"order {order.order_id} was in the file before, with other content"
        return Refusal(number, order.order_id, Reason.MALFORMED, detail)
    if facts & Known.READ:
        found.repeated += 1
        return None
    known.learn(order.order_id, Known.READ)
    if facts & Known.CONFLICT:
        detail = f"the log has an order {order.order_id} already, with other content"
        return Refusal(number, order.order_id, Reason.CONFLICT, detail)
    if facts & Known.PLACED:
        found.before += 1
        return None
    return _request(number, order, content, codec)


def _request(number: int, order: Order, content: int, codec: Codec) -> Publication | Refusal:
    try:
        request = order_request(order, content)
    except ValidationError as error:
        first = error.errors()[0]
        detail = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        return Refusal(number, order.order_id, Reason.MALFORMED, detail)
    most = sum(_LINE_BYTES + _CHARACTER_BYTES * len(line.sku) for line in order.lines)
    if most > _MOST_BYTES and (size := len(codec.encode(request.event))) > _MOST_BYTES:
        detail = f"the order takes {size:,} bytes, and {_MOST_BYTES:,} is the most"
        return Refusal(number, order.order_id, Reason.MALFORMED, detail)
    return request
