"""One JSON object a line: the order file's own format."""

import json
from collections.abc import Iterator

from eventlib.http import JsonRefused, decode_json
from services.importing.orders import Order, order_id_of, order_of
from services.importing.refusals import Malformed, Reason, Refusal
from services.importing.source import MAX_LINE_BYTES, FileLine, Source


def read_ndjson(source: Source) -> Iterator[tuple[int, Order | Refusal]]:
    """Yield each line's order, or its refusal, with the line's number; empty lines are skipped."""
    for line in source.lines():
        if line.text is None or line.text.strip():
            yield line.number, _read(line)


def _read(line: FileLine) -> Order | Refusal:
    raw: object = None
    try:
        raw = _decoded(line)
        return order_of(raw)
    except Malformed as error:
        return Refusal(line.number, order_id_of(raw), Reason.MALFORMED, str(error))


def _decoded(line: FileLine) -> object:
    if line.text is None:
        raise Malformed(f"the line has {line.length:,} bytes, and {MAX_LINE_BYTES:,} is the most")
    try:
        return decode_json(line.text.decode())
    except UnicodeDecodeError as error:
        raise Malformed(f"not UTF-8: byte 0x{line.text[error.start]:02x} at {error.start + 1}") from error
    except json.JSONDecodeError as error:
        raise Malformed(f"not JSON: {error.msg} at column {error.colno}") from error
    except JsonRefused as error:
        raise Malformed(str(error)) from error
