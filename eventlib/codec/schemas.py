"""Schema ids, kept with the log: in a compacted topic on it, in the form in which a Confluent registry writes them."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from eventlib.errors import OwnershipLost
from eventlib.log.port import Log, Record, undecodable
from eventlib.times import now_ms
from eventlib.topic import Topic

SCHEMAS = Topic("_schemas", partitions=1, compacted=True)

_READ_AT_ONCE = 1_000
_PATIENCE_S = 60.0
_LONGEST_PAUSE_S = 3.0


@dataclass(frozen=True, slots=True)
class Registered:
    """A version of a subject's schema."""

    subject: str
    version: int
    id: int
    text: str


class Schemas:
    """The schemas on a log: an id for each text, and versions for each subject.

    Guarantee: one text has one id for ever, whoever registers it, and however many do so at the same time.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._position = 0
        self._texts: dict[int, str] = {}
        self._ids: dict[str, int] = {}
        self._versions: dict[str, int] = {}
        self._kept: dict[tuple[str, str], set[int]] = {}

    def text(self, schema_id: int) -> str | None:
        """Return a schema by id, as far as the log was read."""
        return self._texts.get(schema_id)

    @property
    def texts(self) -> Mapping[int, str]:
        """The schemas by id, as far as the log was read."""
        return self._texts

    def id_of(self, text: str) -> int:
        """Return the id of a registered schema."""
        return self._ids[text]

    async def register(self, wanted: Iterable[tuple[str, str]]) -> None:
        """Register (subject, schema text) pairs, all those that are new in one append.

        Guarantee: reads only, when all are registered. Raises: OwnershipLost when others keep registering for a
        minute; LogReadOnly, LogUnavailable and the like as `Log.append` does.
        """
        pairs = list(dict.fromkeys(wanted))
        await self.refresh()
        if not self._missing(pairs):
            return
        if SCHEMAS.name not in await self._log.topics():
            await self._log.create_topics([SCHEMAS])
        # A random pause, since each attempt ends the claims of the others: one that grows until they fit side by side.
        async for attempt in AsyncRetrying(
            retry=retry_if_exception_type(OwnershipLost),
            wait=wait_random_exponential(multiplier=0.02, max=_LONGEST_PAUSE_S),
            stop=stop_after_delay(_PATIENCE_S),
            reraise=True,
        ):
            with attempt:
                await self.refresh()
                if self._missing(pairs):  # not every one of those who start together has to
                    await self._append(pairs)
        await self.refresh()

    async def refresh(self) -> None:
        """Read what was registered since. Raises: UndecodableRecord for a record that is not a schema's."""
        if SCHEMAS.name not in await self._log.topics():
            return
        while records := await self._log.read(SCHEMAS.name, 0, self._position, _READ_AT_ONCE):
            for record in records:
                self.learn(record)
                self._position = record.offset + 1

    async def _append(self, pairs: list[tuple[str, str]]) -> None:
        claim = await self._log.seize(SCHEMAS.name, 0)
        await self.refresh()  # with the claim: who registers after this read ends it, and the append fails
        missing = self._missing(pairs)
        if missing:
            now = now_ms()
            await self._log.append([_record(each, now) for each in self._numbered(missing)], claim)

    def _missing(self, pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
        return [pair for pair in pairs if not self._kept.get(pair)]

    def _numbered(self, pairs: list[tuple[str, str]]) -> list[Registered]:
        ids, versions = dict(self._ids), dict(self._versions)
        made = list[Registered]()
        next_id = max(self._texts, default=0) + 1
        for subject, text in pairs:
            if text not in ids:
                ids[text] = next_id
                next_id += 1
            versions[subject] = versions.get(subject, 0) + 1
            made.append(Registered(subject, versions[subject], ids[text], text))
        return made

    def learn(self, record: Record) -> None:
        """Take note of a record of the topic. Raises: UndecodableRecord for one that is not a schema's."""
        try:
            key = json.loads(record.key or b"null")
            value = json.loads(record.value) if record.value is not None else None
            # A registry's own settings stand there too, and deletions without a value.
            if key["keytype"] != "SCHEMA" or value is None or value.get("schemaType", "AVRO") != "AVRO":
                return
            schema_id, subject, version = int(value["id"]), str(value["subject"]), int(value["version"])
            text = json.dumps(json.loads(value["schema"]), separators=(",", ":"), ensure_ascii=False)
            deleted = bool(value.get("deleted", False))
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            reason = f"not a schema as a registry writes it: {error!s:.200}"
            raise undecodable(record, reason) from error
        self._texts[schema_id] = text
        self._ids.setdefault(text, schema_id)
        self._versions[subject] = max(version, self._versions.get(subject, 0))
        # A deleted version keeps its id, so that what it wrote can be read; under its subject it is new again.
        kept = self._kept.setdefault((subject, text), set())
        (kept.discard if deleted else kept.add)(version)


def _record(schema: Registered, now: int) -> Record:
    key = {"keytype": "SCHEMA", "subject": schema.subject, "version": schema.version, "magic": 1}
    value = {
        "subject": schema.subject,
        "version": schema.version,
        "id": schema.id,
        "schema": schema.text,
        "deleted": False,
    }
    return Record(SCHEMAS.name, 0, -1, now, _json(key), _json(value))


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
