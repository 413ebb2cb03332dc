"""What an event costs to encode and to decode, in each format and beside bare fastavro: CPU, in turns, in one process.

Bare fastavro writes a dict and reads one: without a class, its validation, and the framing. Prints JSON.
"""

import asyncio
import json
import statistics
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from io import BytesIO
from time import process_time
from typing import Any

from fastavro import parse_schema, schemaless_reader, schemaless_writer

from eventlib import Event
from eventlib.codec.wire_format import HEADER_BYTES, FramedCodec
from eventlib.log.memory import MemoryLog
from eventlib.model.schema.derive import record_of
from eventlib.model.schema.types import schema_json
from eventlib.model.topic import FORMATS, Topic
from services.order.events import OrderLine

TURNS = 15
TIMES = 2_000
LINES = 3


def event_of(form: str) -> Any:
    """Return an order, as the shop's, whose topic has a format."""

    class OrderPlaced(Event, topic=Topic("orders", format=form), key="order_id"):
        order_id: str
        customer_id: str | None
        country: str
        currency: str
        amount_cents: int
        lines: tuple[OrderLine, ...]
        placed_at: datetime

    lines = tuple(OrderLine(line_no=i, sku=f"8512{i}A", quantity=6, unit_price_cents=255) for i in range(1, LINES + 1))
    return OrderPlaced(
        order_id="536365",
        customer_id="17850",
        country="United Kingdom",
        currency="GBP",
        amount_cents=13_912,
        lines=lines,
        placed_at=datetime(2026, 1, 2, 8, 26, tzinfo=UTC),
    )


async def works() -> dict[str, Callable[[], object]]:
    """Return what is measured, by name."""
    found = dict[str, Callable[[], object]]()
    for form in FORMATS:
        event, codec = event_of(form), FramedCodec(MemoryLog())
        await codec.prepare([("orders", type(event))])
        data = codec.encode(event)
        assert codec.decode(type(event), data) == event
        found |= {
            f"{form}_encode": partial(codec.encode, event),
            f"{form}_decode": partial(codec.decode, type(event), data),
        }
        if form == "avro":
            found |= bare(event, data[HEADER_BYTES:])
    return found


def bare(event: Any, body: bytes) -> dict[str, Callable[[], object]]:
    """Return the same by fastavro alone; and with the class's validation behind it, which it does not have."""
    schema, fields = parse_schema(schema_json(record_of(type(event)))), event.model_dump()
    validate = type(event).model_validate
    return {
        "fastavro_encode": lambda: schemaless_writer(BytesIO(), schema, fields),
        "fastavro_decode": lambda: schemaless_reader(BytesIO(body), schema, None),
        "fastavro_validated": lambda: validate(schemaless_reader(BytesIO(body), schema, None)),
    }


def main() -> None:
    """Measure in turns, and print medians: microseconds an event, and times what bare fastavro takes."""
    measured: dict[str, list[float]] = defaultdict(list)
    every = asyncio.run(works())
    for _ in range(TURNS):
        for name, work in every.items():
            began = process_time()
            for _ in range(TIMES):
                work()
            measured[name].append((process_time() - began) / TIMES * 1e6)
    found = {f"{name}_us": statistics.median(values) for name, values in measured.items()}
    for form in FORMATS:
        for way in ("encode", "decode"):
            ratios = [a / b for a, b in zip(measured[f"{form}_{way}"], measured[f"fastavro_{way}"], strict=True)]
            found[f"{form}_{way}_times_fastavro"] = statistics.median(ratios)
    ratios = [a / b for a, b in zip(measured["avro_decode"], measured["fastavro_validated"], strict=True)]
    found["avro_decode_times_fastavro_validated"] = statistics.median(ratios)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
