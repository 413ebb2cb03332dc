"""Reads an order file, whatever its format."""

from collections.abc import Iterator

from services.importing.ndjson import read_ndjson
from services.importing.orders import Order
from services.importing.refusals import Refusal
from services.importing.retail_csv import read_csv
from services.importing.source import Source


def read_orders(source: Source) -> Iterator[tuple[int, Order | Refusal]]:
    """Yield, in file order, each order that is to be placed, or why it is refused, with its place in the file.

    An order in the right shape that is refused for what it says is a Refusal as well; see `read_all` for its lines.
    Raises: UnreadableFile when the file as a whole cannot be read.
    """
    for number, found in read_all(source):
        fault = None if isinstance(found, Refusal) else found.fault()
        if fault is None or isinstance(found, Refusal):
            yield number, found
        else:
            yield number, Refusal(number, found.order_id, *fault)


def read_all(source: Source) -> Iterator[tuple[int, Order | Refusal]]:
    """Yield each order that has the right shape, whether it will be placed or not; a Refusal for all others."""
    return read_csv(source) if source.is_csv else read_ndjson(source)
