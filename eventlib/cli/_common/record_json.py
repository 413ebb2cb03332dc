"""A record as one line of JSON: where it stands, its attributes, and what is in it."""

from eventlib.cli._common import output
from eventlib.model.record import key_text
from eventlib.queries.decoding import Reading
from eventlib.values import iso_ms


def record_line(reading: Reading) -> bytes:
    """Return the line; `error` says why a record's data is not there."""
    record = reading.record
    line: dict[str, object] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "recorded_at": iso_ms(record.timestamp_ms),
        "key": None if record.key is None else key_text(record),
        "type": record.type,
        "id": record.event_id,
        "source": record.source,
        "subject": record.subject,
        "sequence": record.sequence,
        "correlation_id": record.correlation_id,
        "causation_id": record.causation_id,
        "data": reading.value,
    }
    if reading.error is not None:
        line["error"] = reading.error
    try:
        return output.json_line(line)
    except ValueError as error:
        return output.json_line({**line, "data": None, "error": f"the event cannot be written as JSON: {error}"})
