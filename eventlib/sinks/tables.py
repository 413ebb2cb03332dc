"""The tables beside a sink's rows: how far it is, and what could not be handled."""

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Identity,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    func,
    text,
)

OWN = MetaData()

POSITIONS = Table(
    "eventlib_sink_positions",
    OWN,
    Column("sink", Text, primary_key=True),
    Column("topic", Text, primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("next_offset", BigInteger, nullable=False),
    Column("log_id", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("fence", Text, nullable=False),  # who writes: another's transaction changes nothing
)

PARKED = Table(
    "eventlib_sink_parked",
    OWN,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("sink", Text, nullable=False),
    Column("topic", Text, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("record_offset", BigInteger, nullable=False),
    Column("type", Text),
    Column("key", Text),
    Column("error", Text),  # NULL: to be tried, once nothing earlier of its topic and key has an error
    Column("parked_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    UniqueConstraint("sink", "topic", "partition", "record_offset"),
)

TAKE_OVER = text("""
INSERT INTO eventlib_sink_positions AS mine (sink, topic, partition, next_offset, log_id, version, fence)
SELECT :sink, topic, partition, next_offset, :log_id, :version, :fence
FROM unnest(cast(:topics AS text[]), cast(:partitions AS int[]), cast(:offsets AS bigint[]))
  AS given (topic, partition, next_offset)
ON CONFLICT (sink, topic, partition) DO UPDATE SET fence = excluded.fence
RETURNING topic, partition, next_offset, log_id, version
""")
"""Fence off who wrote before, and return where each partition continues; a new one begins at the offset given."""

ADVANCE = text("""
UPDATE eventlib_sink_positions AS mine SET next_offset = given.next_offset
FROM unnest(cast(:topics AS text[]), cast(:partitions AS int[]), cast(:offsets AS bigint[]))
  AS given (topic, partition, next_offset)
WHERE mine.sink = :sink AND mine.topic = given.topic AND mine.partition = given.partition AND mine.fence = :fence
  AND mine.next_offset <= given.next_offset
""")

LOCK_ALL = text("""
SELECT FROM eventlib_sink_positions WHERE sink = :sink ORDER BY topic, partition FOR UPDATE
""")

PARK = text("""
INSERT INTO eventlib_sink_parked (sink, topic, partition, record_offset, type, key, error)
VALUES (:sink, :topic, :partition, :offset, :type, :key, :error) ON CONFLICT DO NOTHING
""")

_EVENT = (
    "topic, partition, record_offset, type, key, error, 0 AS attempts, CASE WHEN error IS NULL THEN 0 END AS due_ms"
)
FAILED = text(f"""
SELECT {_EVENT} FROM eventlib_sink_parked
WHERE sink = :sink AND error IS NOT NULL ORDER BY id LIMIT :most
""")  # noqa: S608  a constant

WAITING = text(f"""
SELECT {_EVENT} FROM eventlib_sink_parked AS waiting
WHERE sink = :sink AND error IS NULL AND partition = ANY(:partitions) AND NOT EXISTS (
  SELECT FROM eventlib_sink_parked AS failed WHERE failed.sink = waiting.sink AND failed.topic = waiting.topic
    AND failed.key = waiting.key AND failed.error IS NOT NULL AND failed.id < waiting.id
) ORDER BY id LIMIT 1000
""")  # noqa: S608  a constant
"""Parked events that no earlier one blocks."""

POSITIONS_NOW = text("SELECT topic, partition, next_offset FROM eventlib_sink_positions WHERE sink = :sink")
HELD = text("SELECT DISTINCT topic, key FROM eventlib_sink_parked WHERE sink = :sink AND key IS NOT NULL")
COUNTS = text("SELECT count(*) AS parked, count(error) AS failed FROM eventlib_sink_parked WHERE sink = :sink")

_PLACE = "sink = :sink AND topic = :topic AND partition = :partition AND record_offset = :offset"
UNPARK = text(f"DELETE FROM eventlib_sink_parked WHERE {_PLACE}")  # noqa: S608  a constant
KEEP = text(f"UPDATE eventlib_sink_parked SET error = :error WHERE {_PLACE}")  # noqa: S608  a constant
WITHHOLD = text("""
UPDATE eventlib_sink_parked SET error = split_part(error, ': ', 1) || ': ' || cast(:withheld AS text)
WHERE sink = :sink AND strpos(error, ': ') > 0
""")
"""Leaves of errors that an earlier version has kept their types."""
RETRY = text("""
UPDATE eventlib_sink_parked SET error = NULL
WHERE sink = :sink AND error IS NOT NULL AND cast(:id AS text) IN ('', concat(topic, '/', partition, '/', record_offset))
""")
