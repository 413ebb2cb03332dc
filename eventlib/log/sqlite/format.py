"""The format version of an SQLite log's file, and its view for people and SQL tools."""

from eventlib.log.sqlite.state import OFFSET_BITS

FORMAT_VERSION = 3

# How `packing` writes them: {"records":64,"offsets":64}
IS_BATCH = "ifnull(unicode(headers) = 123, 0)"  # a brace, where a record has a bracket or NULL
RECORDS = f"CASE WHEN {IS_BATCH} THEN CAST(substr(headers, 12) AS INTEGER) ELSE 1 END"
"""How many records a row of the table `records` has."""
OFFSETS = f"CASE WHEN {IS_BATCH} THEN CAST(substr(headers, instr(headers, ',') + 11) AS INTEGER) ELSE 1 END"
"""Over how many offsets they are, the last of which is the row's."""
CHECKSUMS = f"CASE WHEN {IS_BATCH} THEN sequence ELSE checksum END"
"""The sum of their checksums."""

LOG_VIEW = f"""CREATE VIEW log AS
    SELECT p.topic, p.partition, (r.position & {(1 << OFFSET_BITS) - 1}) - ({OFFSETS}) + 1 AS "offset",
        strftime('%Y-%m-%dT%H:%M:%fZ', r.recorded_at / 1000.0, 'unixepoch') AS recorded_at,
        CAST(r.key AS TEXT) AS "key", CASE WHEN {IS_BATCH} THEN 'a batch of records' ELSE r.type END AS type,
        r.id, r.source, r.subject, CASE WHEN {IS_BATCH} THEN NULL ELSE r.sequence END AS sequence, r.correlation_id,
        r.causation_id, r.traceparent, r.headers, length(r.value) AS bytes, r.value, {RECORDS} AS records
    FROM partitions p CROSS JOIN records r
        ON r.position >= p.number << {OFFSET_BITS} AND r.position < (p.number + 1) << {OFFSET_BITS}"""  # noqa: S608  constants of this file only
