"""Verifies all that a log holds: every record, and the services' positions on it."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from eventlib.codec.wire_format import FramedCodec
from eventlib.errors import DamagedRecord, EventlibError, LogCorrupt
from eventlib.eventlog import EventLog
from eventlib.ground.url import log_file
from eventlib.log.open import open_port
from eventlib.log.reading import SkippingReader, chunks
from eventlib.log.sqlite.connection import connect
from eventlib.log.sqlite.damage import Damage
from eventlib.log.sqlite.errors import explained
from eventlib.log.sqlite.format import RECORDS
from eventlib.log.sqlite.integrity import Proof, prove
from eventlib.log.sqlite.schema import check_version
from eventlib.model.choreography import Choreography
from eventlib.model.record import Record, key_text
from eventlib.operations.doctor.finding import Diagnosis
from eventlib.queries.task_metadata import TaskNotes

Progress = Callable[[int, int | None], None]
"""Called with how many more records were verified, and how many there are (None: unchanged)."""

_REPAIR = "`eventlib repair` fixes it"
_COPY = "restore it from a backup, or continue: inputs that cannot be read are parked"
_ANOTHER_COPY = "restore it from a copy of the archive, or archive the log again to another directory"


@dataclass(frozen=True, slots=True)
class Finding(Diagnosis):
    """A diagnosis of something on the log: its location and subject, as far as they can be read."""

    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    resume_at: int | None = None
    key: str | None = None
    type: str | None = None


async def examine_deep(url: str, choreography: Choreography, progress: Progress) -> list[Diagnosis]:
    """Verify every record of a log, and its services' positions against its ends. Nothing is changed.

    On SQLite: each record's checksum, each gap, each partition's digest and all tables; elsewhere: all that a reader
    verifies (Kafka's CRCs, an archive's files), and gaps come from compaction. Raises: WiringError for an invalid URL.
    """
    found = list[Diagnosis]()
    try:
        file = log_file(url)
        if file is None:
            if url.startswith("archive:"):
                found += await asyncio.to_thread(changed_archive, url)
            if not found:
                found += await _read_all(url, progress)
        elif await asyncio.to_thread(file.exists):  # else this is reported already
            proof = await asyncio.to_thread(prove_file, file, progress)
            found += [*map(finding, proof.damages), _summary(proof)]
        else:
            return []
        found += await _examine_positions(url, choreography)
    except EventlibError as trouble:
        found.append(Diagnosis("log", "error", str(trouble), "fix the errors above, and run this again"))
    return found


def changed_archive(url: str) -> list[Diagnosis]:
    """Return the files of an archive that have changed since. Raises: LogUnavailable, LogCorrupt."""
    from eventlib.log.archive.changed import changed_files  # it needs an extra
    from eventlib.log.archive.files import read_manifest
    from eventlib.log.archive.place import place_of

    place = place_of(url)
    return [
        Diagnosis("files", "error", f"{file.path}: {why}", _ANOTHER_COPY)
        for file, why in changed_files(place, read_manifest(place))
    ]


def prove_file(path: Path, progress: Progress = lambda *_: None) -> Proof:
    """Verify a log's file. Raises: LogCorrupt, LogVersionMismatch, LogUnavailable."""
    try:
        with closing(connect(path)) as connection:
            check_version(connection, path)
            (count,) = connection.execute(f"SELECT ifnull(sum({RECORDS}), 0) FROM records").fetchone()  # noqa: S608  a constant
            progress(0, count)
            return prove(connection, lambda more: progress(more, None))
    except sqlite3.DatabaseError as error:
        raise explained(error, path) from error


def finding(each: Damage) -> Finding:
    """Return a damage as a finding."""
    what = each.what + (f"; likely: {each.likely}" if each.likely else "")
    if each.topic and each.offset is not None and each.resume_at is not None:
        many = f"-{each.resume_at - 1}" if each.resume_at > each.offset + 1 else ""
        kind = f" ({each.type or 'a record'} of {each.key!r})" if each.key is not None else ""
        what = f"{each.topic}/{each.partition}/{each.offset}{many}{kind}: {what}"
    elif each.topic:
        what = f"{each.topic}/{each.partition}: {what}"
    place = (each.topic, each.partition, each.offset, each.resume_at, each.key, each.type)
    return Finding(each.check, "error", what, _REPAIR if each.repair else _COPY, *place)


def _summary(proof: Proof) -> Diagnosis:
    what = f"{proof.records:,} verified"
    if proof.unsealed:
        what += f"; {proof.unsealed:,} have no checksum, since an older release wrote them, and cannot be verified"
    return Diagnosis("records", "ok", what)


async def _read_all(url: str, progress: Progress) -> list[Diagnosis]:
    log = await open_port(url)
    try:
        reading, found, records = SkippingReader(log), list[Diagnosis](), 0
        for topic in (await log.topics()).values():
            for partition in range(topic.partitions):
                place, offset = (topic.name, partition), await log.start(topic.name, partition)
                try:
                    async for some in chunks(reading, place, offset):
                        records, offset = records + len(some), some[-1].offset + 1
                        progress(len(some), None)
                except LogCorrupt as error:
                    what = f"{topic.name}/{partition}: {error}"
                    found.append(Finding("records", "error", what, _COPY, *place, offset))
        found += map(_of_error, reading.damaged.values())
        return [*found, Diagnosis("records", "ok", f"{records:,} read, and verified as far as the log can")]
    finally:
        await log.close()


def _of_error(error: DamagedRecord) -> Finding:
    record = error.record if isinstance(error.record, Record) else None
    key, kind = (None, None) if record is None else (key_text(record), record.type)
    place = (error.topic, error.partition, error.offset, error.resume_at, key, kind)
    return Finding("records", "error", f"{error.topic}/{error.partition}/{error.offset}: {error.reason}", _COPY, *place)


async def _examine_positions(url: str, choreography: Choreography) -> list[Diagnosis]:
    """Compare the tasks' positions with the ends of their inputs: a position after the end shows that a tail is lost."""
    port = await open_port(url)
    try:
        there = await port.topics()
        notes = TaskNotes(EventLog(port, FramedCodec(port), choreography))
        await notes.refresh()
        found = list[Diagnosis]()
        for service, partition in notes.tasks:
            positions = await notes.positions(service, partition)
            for topic, offset in (positions.next if positions else {}).items():
                end = await port.end(topic, partition) if topic in there else 0
                if offset > end:
                    found.append(_lost(service.name, topic, partition, end, offset))
        return found or [Diagnosis("tail", "ok", "no task's position is past the end of its inputs")]
    finally:
        await port.close()


def _lost(service: str, topic: str, partition: int, end: int, offset: int) -> Finding:
    what = f"{topic}/{partition} ends at {end}, and {service} has handled it up to {offset}: its tail is lost"
    remedy = (
        "restore it from a backup or an archive; until then let nothing write to it: offsets would be assigned twice"
    )
    return Finding("tail", "error", what, remedy, topic, partition, end, offset)
