"""Computes a sink's tables anew, in a schema beside, and switches in one transaction."""

from collections.abc import Callable, Mapping

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from eventlib.errors import ContractError, LogUnavailable, WiringError
from eventlib.eventlog import EventLog
from eventlib.log.base import TopicPartition
from eventlib.runtime.records import modules_version
from eventlib.sinks.applying import Sinking
from eventlib.sinks.consuming import AT_ONCE, partitions_of
from eventlib.sinks.database import SinkDatabase, database_of
from eventlib.sinks.declaration import SqlSink

_NEXT, _BEFORE = "next", "before"
_TOLD_EVERY = 100_000
_PATIENCE_S = 0.2

_GRANTS = text("""
SELECT format('GRANT %s ON SCHEMA %I TO %s', privilege_type, cast(:next AS text), who.name)
FROM pg_namespace, aclexplode(nspacl) AS acl, LATERAL (
  SELECT CASE acl.grantee WHEN 0 THEN 'PUBLIC' ELSE cast(cast(acl.grantee AS regrole) AS text) END AS name) AS who
WHERE nspname = :live AND acl.grantee <> nspowner
UNION ALL
SELECT format('GRANT %s ON TABLE %I.%I TO %s', privilege_type, cast(:next AS text), old.relname, who.name)
FROM pg_class AS old
JOIN pg_class AS new ON new.relname = old.relname AND new.relnamespace = to_regnamespace(:next)
CROSS JOIN LATERAL aclexplode(old.relacl) AS acl, LATERAL (
  SELECT CASE acl.grantee WHEN 0 THEN 'PUBLIC' ELSE cast(cast(acl.grantee AS regrole) AS text) END AS name) AS who
WHERE old.relnamespace = to_regnamespace(:live) AND old.relkind IN ('r', 'p') AND acl.grantee <> old.relowner
""")
_LIVE = text("""
SELECT topic, partition, next_offset FROM eventlib_sink_positions WHERE sink = :sink
""")


async def rebuild(
    log: EventLog, sink: SqlSink, url: str | None, tell: Callable[[str], None] = lambda _: None, *, parked: bool = False
) -> int:
    """Compute a sink's tables from the log's beginning, put them in the place of those of now, and return how many events.

    One that was interrupted goes on, unless code has changed since, or events were parked. The tables of now stay in the
    schema NAME_before until the next rebuild. Who may read them, may read the new ones.
    Guarantee: readers see the old tables or the new ones, which are not behind the old; what the sink's processes write
    meanwhile is on the log, and so in the new ones. Raises: WiringError for an inbox; ContractError when events were parked,
    unless `parked`; LogUnavailable.
    """
    if sink.schema is None:
        raise WiringError(
            f"sink {sink.name} changes an application's own rows, and cannot be rebuilt: it declares no tables="
        )
    live = database_of(sink, url)
    beside = SinkDatabase(url or "", sink, f"{sink.schema}_{_NEXT}")
    work = Sinking(log, beside)
    try:
        mark = f"{log.port.log_id} {sink.version} {modules_version(sink.modules)}"
        async with live.connected() as connection:
            continues = await _continues(connection, f"{sink.schema}_{_NEXT}", mark)
        await work.begin(range(partitions_of(sink.topics)))
        if continues:
            tell(f"Goes on with a rebuild that was interrupted, from offset {sum(work.positions.values()):,} in sum.")
        await _until_here(log, work, tell)
        status = await beside.status(log.port, 0)
        if (held := status.waiting + status.failed) and not parked:
            raise ContractError(
                f"sink {sink.name}: events are parked ({held:,} so far): mend the handlers, or give --parked to switch all the same; "
                f"{beside.schema}.eventlib_sink_parked has them, with their errors"
            )
        async with live.connected() as connection:
            await _switch(connection, sink.schema, work)
        return work.applied
    finally:
        await work.end()
        await live.close()
        await beside.close()


async def _continues(connection: AsyncConnection, schema: str, mark: str) -> bool:
    """Return whether a rebuild that was interrupted can go on; if it cannot, begin anew."""
    found = await connection.execute(
        text("SELECT obj_description(to_regnamespace(:name), 'pg_namespace')"), {"name": schema}
    )
    if found.scalar() == mark and await _is_there(connection, f"to_regclass('{schema}.eventlib_sink_positions')"):
        parked = await connection.execute(text(f"SELECT count(*) FROM {schema}.eventlib_sink_parked"))  # noqa: S608  checked
        if not parked.scalar():
            return True
    await connection.execute(text(f"DROP SCHEMA IF EXISTS {schema} CASCADE"))
    await connection.execute(text(f"CREATE SCHEMA {schema}"))
    await connection.execute(text(f"COMMENT ON SCHEMA {schema} IS '{mark}'"))
    return False


async def _until_here(log: EventLog, work: Sinking, tell: Callable[[str], None]) -> None:
    """Apply all but a little of what is on the log."""
    told = 0
    while True:
        taken = await work.step(_PATIENCE_S)
        if work.applied - told >= _TOLD_EVERY:
            told = work.applied
            tell(f"{told:,} events applied.")
        if taken < AT_ONCE and _lacks(work, {each: await log.port.end(*each) for each in work.positions}) <= AT_ONCE:
            return


async def _switch(connection: AsyncConnection, schema: str, work: Sinking) -> None:
    """Rename both schemas, once the new one has all that the old one has, which is locked meanwhile."""
    if await _is_there(connection, f"to_regclass('{schema}.eventlib_sink_positions')"):
        await connection.execute(text(f"LOCK TABLE {schema}.eventlib_sink_positions IN ACCESS EXCLUSIVE MODE"))
        await _reach(work, await _positions(connection, schema))
        for (grant,) in (await connection.execute(_GRANTS, {"live": schema, "next": f"{schema}_{_NEXT}"})).all():
            await connection.execute(text(grant))
    await connection.execute(text(f"DROP SCHEMA IF EXISTS {schema}_{_BEFORE} CASCADE"))
    if await _is_there(connection, f"to_regnamespace('{schema}')"):
        await connection.execute(text(f"ALTER SCHEMA {schema} RENAME TO {schema}_{_BEFORE}"))
    await connection.execute(text(f"COMMENT ON SCHEMA {schema}_{_NEXT} IS NULL"))
    await connection.execute(text(f"ALTER SCHEMA {schema}_{_NEXT} RENAME TO {schema}"))


async def _is_there(connection: AsyncConnection, found: str) -> bool:
    return bool((await connection.execute(text(f"SELECT {found} IS NOT NULL"))).scalar())


async def _positions(connection: AsyncConnection, schema: str) -> dict[TopicPartition, int]:
    rows = await connection.execute(_LIVE, {"sink": schema})
    return {(row.topic, row.partition): row.next_offset for row in rows}


async def _reach(work: Sinking, goal: Mapping[TopicPartition, int]) -> None:
    while _lacks(work, goal):
        if not await work.step() and _lacks(work, goal):
            raise LogUnavailable("the log did not give what the old tables have: give the command again")


def _lacks(work: Sinking, goal: Mapping[TopicPartition, int]) -> int:
    """Return how many offsets it has to go."""
    return sum(max(end - work.positions[each], 0) for each, end in goal.items() if each in work.positions)
