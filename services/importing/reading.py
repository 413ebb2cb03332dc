"""Reads an order file of any format."""

from collections.abc import Iterator

from services.importing.ndjson import read_ndjson
from services.importing.orders import Order
from services.importing.refusals import Refusal
from services.importing.retail_csv import read_csv
from services.importing.source import Source


def read_orders(source: Source) -> Iterator[tuple[int, Order | Refusal]]:
    """Yield, in file order, each order to place, or its refusal, with its line number.

    A well-formed order with refused content is a Refusal as well; see `read_all` for its lines.
    Raises: UnreadableFile when the file as a whole cannot be read.
    """
    for number, found in read_all(source):
        fault = None if isinstance(found, Refusal) else found.fault()
        if fault is None or isinstance(found, Refusal):
            yield number, found
        else:
            yield number, Refusal(number, found.order_id, *fault)


def read_all(source: Source) -> Iterator[tuple[int, Order | Refusal]]:
    """Yield each well-formed order, whether it will be placed or not; a Refusal for all others."""
    return read_csv(source) if source.is_csv else read_ndjson(source)
