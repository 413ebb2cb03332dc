"""Schema ids, kept with the log: in a compacted topic on it, in the form in which a Confluent registry writes them."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from itertools import product

from eventlib.codec.registry import AVRO, Registry, Schema, Version, Wanted
from eventlib.errors import DamagedRecord
from eventlib.log.base import Log
from eventlib.log.checksum import record_checksum
from eventlib.log.seizing import seizing
from eventlib.model.record import Record
from eventlib.registry import records
from eventlib.registry.parsing import SchemaType
from eventlib.registry.records import SCHEMAS
from eventlib.values import now_ms

_log = logging.getLogger("eventlib.schemas")

_READ_AT_ONCE = 1_000


class Schemas(Registry):
    """The schemas on a log: an id for each text, and versions for each subject.

    Guarantee: one text always has one id, whichever process registers it, and however many do so at the same time. A damaged
    record stops no process that does not need its schema; what is wanted and has the record's checksum was that schema: it
    keeps its id, and is written again when it is registered.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._position = 0
        self._known: dict[int, Schema] = {}
        self._ids: dict[Schema, int] = {}
        self._newest: dict[str, int] = {}
        self._kept: dict[str, dict[int, Version]] = {}
        self._levels: dict[str, str] = {}
        self._damaged: dict[int, DamagedRecord] = {}
        self._proved: dict[Wanted, Version] = {}

    def schema(self, schema_id: int) -> Schema | None:
        """Return a schema by id, as far as the log was read."""
        return self._known.get(schema_id)

    @property
    def damaged(self) -> Sequence[DamagedRecord]:
        """See `Registry.damaged`; those that were proved to be a schema are none of them."""
        return [*self._damaged.values()]

    @property
    def texts(self) -> Mapping[int, str]:
        """The Avro schemas by id, as far as the log was read."""
        return {number: schema.text for number, schema in self._known.items() if schema.kind == AVRO}

    async def ids(self, wanted: Iterable[Wanted]) -> list[int | None]:
        """See `Registry.ids`."""
        pairs = list(wanted)
        if self._missing(pairs):
            await self.refresh()
            self._prove(pairs)
        return [self._ids[schema] if self._has(subject, schema) else None for subject, schema in pairs]

    async def versions(self, subject: str) -> Sequence[Version]:
        """See `Registry.versions`."""
        kept = self._kept.get(subject, {})
        return [kept[number] for number in sorted(kept)]

    async def subjects(self) -> Sequence[str]:
        """See `Registry.subjects`."""
        await self.refresh()
        return sorted(subject for subject, kept in self._kept.items() if kept)

    async def level(self, subject: str) -> str | None:
        """See `Registry.level`."""
        return self._levels.get(subject)

    async def set_level(self, subject: str, level: str) -> None:
        """See `Registry.set_level`. Raises: as `register`."""
        if SCHEMAS.name not in await self._log.topics():
            await self._log.create_topics([SCHEMAS])
        setting = records.Setting("CONFIG", subject, {"subject": subject, "compatibilityLevel": level})
        await self._log.append([records.record_of(setting)])
        await self.refresh()

    async def register(self, wanted: Iterable[Wanted]) -> None:
        """Register schemas, all those that are new in one append.

        Guarantee: reads only, when all are registered. Raises: OwnershipLost when others keep registering for a
        minute; LogReadOnly, LogUnavailable and the like as `Log.append` does.
        """
        pairs = list(dict.fromkeys(wanted))
        await self.refresh()
        if not self._missing(pairs):
            return
        if SCHEMAS.name not in await self._log.topics():
            await self._log.create_topics([SCHEMAS])
        await seizing(lambda: self._append(pairs))
        await self.refresh()

    async def refresh(self) -> None:
        """Read what was registered since. Raises: UndecodableRecord for a record that is not a schema's."""
        if SCHEMAS.name not in await self._log.topics():
            return
        while True:
            try:
                records = await self._log.read(SCHEMAS.name, 0, self._position, _READ_AT_ONCE)
            except DamagedRecord as error:
                _log.warning(
                    "%s; what was written with its schema cannot be read unless the code has that schema", error
                )
                self._damaged[error.offset], self._position = error, error.resume_at
                continue
            if not records:
                return
            for record in records:
                self.learn(record)
                self._position = record.offset + 1

    async def _append(self, pairs: list[Wanted]) -> None:
        await self.refresh()
        if not self._missing(pairs):  # not every one of those who start together has to
            return
        claim = await self._log.seize(SCHEMAS.name, 0)
        await self.refresh()  # with the claim: who registers after this read ends it, and the append fails
        self._prove(pairs)
        missing = self._missing(pairs)
        if missing:
            now = now_ms()
            await self._log.append([_record(each, now) for each in self._numbered(missing)], claim)

    def _has(self, subject: str, schema: Schema) -> bool:
        return any(version.schema == schema for version in self._kept.get(subject, {}).values())

    def _missing(self, pairs: list[Wanted]) -> list[Wanted]:
        return [pair for pair in pairs if not self._has(*pair)]

    def _prove(self, pairs: list[Wanted]) -> None:
        """Look for schemas among the damaged records."""
        for pair, error in product(self._missing(pairs), [*self._damaged.values()]):
            proved = self._written_at(error, *pair)
            if proved is not None:
                self._proved[pair] = proved
                self._known[proved.id] = proved.schema
                self._ids.setdefault(proved.schema, proved.id)
                self._damaged.pop(error.offset, None)

    def _written_at(self, error: DamagedRecord, subject: str, schema: Schema) -> Version | None:
        """Return the version of a subject that a damaged record was, if it was this schema: its checksum tells."""
        stands = error.record
        if error.checksum is None or not isinstance(stands, Record):
            return None
        ids = {self._ids[schema]} if schema in self._ids else {*range(1, self._next_id())} - self._known.keys()
        for number, version in product(sorted(ids), range(1, self._newest.get(subject, 0) + self._lost() + 1)):
            found = Version(subject, version, number, schema)
            if record_checksum(_record(found, stands.timestamp_ms).placed(error.offset)) == error.checksum:
                return found
        return None

    def _lost(self) -> int:
        """Return how many records may have stood where they are damaged: their ids and versions are never given again."""
        return sum(error.resume_at - error.offset for error in self._damaged.values())

    def _next_id(self) -> int:
        return max(self._known, default=0) + self._lost() + 1

    def _numbered(self, pairs: list[Wanted]) -> list[Version]:
        ids, newest = dict(self._ids), dict(self._newest)
        made = list[Version]()
        next_id, lost = self._next_id(), self._lost()
        for subject, schema in pairs:
            if (subject, schema) in self._proved:
                made.append(self._proved[subject, schema])
                continue
            if schema not in ids:
                ids[schema] = next_id
                next_id += 1
            newest[subject] = newest.get(subject, 0) + lost + 1
            made.append(Version(subject, newest[subject], ids[schema], schema))
        return made

    def learn(self, record: Record) -> None:
        """Take note of a record of the topic. Raises: UndecodableRecord for one that is not a schema's."""
        entry = records.entry_of(record)
        if isinstance(entry, records.Setting) and entry.kind == "CONFIG" and entry.subject is not None:
            self._levels.pop(entry.subject, None)
            if level := (entry.value or {}).get("compatibilityLevel"):
                self._levels[entry.subject] = str(level)
        if not isinstance(entry, records.Version):
            return  # a registry's own settings stand there too, and deletions
        schema = Schema(entry.schema.text, entry.schema.kind)
        found = Version(entry.subject, entry.version, entry.id, schema)
        self._known[found.id] = schema
        self._ids.setdefault(schema, found.id)
        self._newest[found.subject] = max(found.version, self._newest.get(found.subject, 0))
        # A deleted version keeps its id, so that what it wrote can be read; under its subject it is new again.
        kept = self._kept.setdefault(found.subject, {})
        kept.pop(found.version, None)
        if not entry.deleted:
            kept[found.version] = found


def _record(version: Version, now: int) -> Record:
    schema = records.Schema(SchemaType(version.schema.kind), version.schema.text)
    return records.record_of(records.Version(version.subject, version.version, version.id, schema)).replace(
        timestamp_ms=now
    )
