"""What a registry decides: whether a schema may be registered, and what is deleted."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from eventlib.registry.canonical import normal
from eventlib.registry.catalogue import Catalogue
from eventlib.registry.comparing import CompareLimits, Comparer
from eventlib.registry.compatibility import (
    Budget,
    Incompatibility,
    Level,
    OverBudgetError,
    compared,
    incompatibilities,
    within,
)
from eventlib.registry.errors import (
    Refused,
    changed_meanwhile,
    id_taken,
    incompatible,
    invalid_schema,
    no_level,
    no_mode,
    no_schema,
    no_subject,
    not_permitted,
    referenced,
    subject_deleted,
    subject_not_deleted,
    version_deleted,
    version_not_deleted,
)
from eventlib.registry.parsing import InvalidSchema, Parsed, parse
from eventlib.registry.records import Entry, Forgotten, Reference, Schema, Setting, Version, deleted, highest
from eventlib.registry.writing import Writer

_PARSED_KEPT = 512
_TRIED_PAIRS, _TRIED_S = 2_000, 0.5


@dataclass(frozen=True, slots=True)
class Understood:
    """A schema as it is kept, what it declares, and its normal form, which other spellings of it have, too."""

    schema: Schema
    parsed: Parsed
    canonical: Schema


@lru_cache(maxsize=_PARSED_KEPT)
def parsed_once(schema: Schema, referenced_texts: tuple[tuple[str, str], ...], *, normalize: bool) -> Understood:
    """Return a schema as it is kept; the latest are remembered. Raises: InvalidSchema."""
    texts = dict(referenced_texts)
    parsed = parse(schema.kind, schema.text, texts)
    kept = replace(schema, text=parsed.text)
    canonical = normal(kept, parsed, texts)
    if normalize:
        kept = canonical
        parsed = parse(kept.kind, kept.text, texts)
    _refuse_incomparable(parsed)
    return Understood(kept, parsed, canonical)


def _refuse_incomparable(parsed: Parsed) -> None:
    """Refuse a schema that is nested too deeply to be compared with any later one. Raises: InvalidSchema."""
    try:
        with within(Budget(_TRIED_PAIRS, _TRIED_S)):
            compared(reader=parsed, writer=parsed)
    except OverBudgetError:
        pass  # a comparison says so, where there is one
    except RecursionError:
        raise InvalidSchema(
            "its types lead to each other too deeply to be compared with other versions: nest less"
        ) from None


_ATTEMPTS = 5
_SMALL = 4_000
"""Characters of a text that is parsed at once; a larger one is parsed beside the event loop."""


@dataclass(frozen=True, slots=True)
class RegistrationRequest:
    """A schema that a client registers, or asks about; with an id and a version when it is imported."""

    schema: Schema
    id: int | None = None
    version: int | None = None
    normalize: bool = False


class Registrar:
    """Decides on one catalogue, and has it written."""

    def __init__(self, catalogue: Catalogue, writer: Writer, limits: CompareLimits | None = None) -> None:
        self._catalogue = catalogue
        self._writer = writer
        self._comparer = Comparer(limits or CompareLimits())

    def end(self) -> None:
        """End all comparisons, since the server stops."""
        self._comparer.end()

    async def understand(self, wanted: RegistrationRequest, subject: str) -> Understood:
        """Return a schema as it would be kept. Raises: Refused for one that is none, or refers to nothing."""
        texts = self._catalogue.texts(wanted.schema.references)
        key = tuple(texts.items())
        named = replace(wanted.schema, references=tuple(map(self._exact, wanted.schema.references)))
        normalize = wanted.normalize or self._catalogue.normalizes(subject)
        try:
            if sum(map(len, texts.values())) + len(wanted.schema.text) <= _SMALL:
                return parsed_once(named, key, normalize=normalize)
            return await asyncio.to_thread(parsed_once, named, key, normalize=normalize)
        except InvalidSchema as error:
            raise invalid_schema(str(error)) from error

    async def register(self, subject: str, wanted: RegistrationRequest) -> Version:
        """Register a schema under a subject; one that is there already is only returned.

        It is compared beside the writer's turn, so that other writes go on, and again if the subject has changed by then.
        Raises: Refused; NotTheWriter.
        """
        async with self._writer.turn():
            pass  # from here on the catalogue has all that the schema may refer to
        understood = await self.understand(wanted, subject)
        if wanted.id is None:
            understood = await self._as_registered(subject, understood)
        for _ in range(_ATTEMPTS):
            compared, found = self._compared_with(subject), list[Incompatibility]()
            is_new = self._catalogue.find(subject, understood.schema) is None
            if wanted.id is None and is_new:  # what is imported was judged where it comes from
                self._refuse_read_only(subject)
                found = await self.judge(subject, understood)
            async with self._writer.turn():
                if self._compared_with(subject) == compared:
                    return await self._write_new(subject, wanted, understood.schema, found)
        raise changed_meanwhile(subject)

    def _compared_with(self, subject: str) -> tuple[Level, list[Version]]:
        return self._catalogue.level(subject), self._catalogue.versions(subject)

    async def _write_new(
        self, subject: str, wanted: RegistrationRequest, schema: Schema, found: Sequence[Incompatibility]
    ) -> Version:
        self._catalogue.texts(schema.references)  # they may be gone since
        known = self._catalogue.find(subject, schema)
        if known is not None and wanted.id in {None, known.id}:
            return known
        version = self._new_version(subject, wanted, schema)
        if found:
            raise incompatible("; ".join(f"{each.rule} at {each.path}: {each.message}" for each in found[:20]))
        await self._writer.write([version])
        return version

    async def judge(
        self, subject: str, understood: Understood, against: Sequence[Version] | None = None
    ) -> list[Incompatibility]:
        """Return what the subject's level forbids about a schema, given all its versions, or just these.

        Raises: Refused when the comparison takes more than it may.
        """
        level = self._catalogue.level(subject)
        versions = self._catalogue.versions(subject) if against is None else against
        if level is Level.NONE or not versions:
            return []
        keys = [(each.schema, tuple(self._catalogue.texts(each.schema.references).items())) for each in versions]

        def compare() -> list[Incompatibility]:
            old = [parsed_once(schema, texts, normalize=False).parsed for schema, texts in keys]
            return incompatibilities(understood.schema.kind, understood.parsed, old, level)

        length = len(understood.schema.text) + sum(len(schema.text) for schema, _ in keys)
        return await self._comparer.run(compare, is_small=length <= _SMALL)

    async def delete_subject(self, subject: str, *, permanent: bool) -> list[int]:
        """Delete a subject's versions and return their numbers. Raises: Refused; NotTheWriter."""
        async with self._writer.turn():
            self._refuse_read_only(subject)
            every = self._catalogue.versions(subject, also_deleted=True)
            living = [each for each in every if not each.deleted]
            if not every:
                raise no_subject(subject)
            if permanent and living:
                raise subject_not_deleted(subject)
            if not permanent and not living:
                raise subject_deleted(subject)
            going = every if permanent else living
            for each in going:
                self._refuse_referenced(each)
            settings = [
                Setting(kind, subject, None)
                for kind in ("CONFIG", "MODE")
                if self._catalogue.setting(kind, subject) is not None
            ]
            await self._writer.write([*self._gone(going, permanent=permanent), *settings])
        return [each.version for each in going]

    async def delete_version(self, subject: str, number: int, *, permanent: bool) -> int:
        """Delete one version and return its number. Raises: Refused; NotTheWriter."""
        async with self._writer.turn():
            self._refuse_read_only(subject)
            version = self._catalogue.version(subject, number, also_deleted=permanent or number > 0)
            if permanent and not version.deleted:
                raise version_not_deleted(subject, version.version)
            if not permanent and version.deleted:
                raise version_deleted(subject, version.version)
            self._refuse_referenced(version)
            await self._writer.write(self._gone([version], permanent=permanent))
        return version.version

    async def configure(self, setting: Setting) -> None:
        """Set a subject's level, or everyone's. Raises: Refused; NotTheWriter."""
        async with self._writer.turn():
            self._refuse_read_only(setting.subject)
            before = self._catalogue.setting(setting.kind, setting.subject) or {}
            await self._writer.write([replace(setting, value={**before, **(setting.value or {})})])

    async def set_mode(self, setting: Setting, *, force: bool) -> None:
        """Set a subject's mode, or everyone's. Raises: Refused; NotTheWriter."""
        async with self._writer.turn():
            if (setting.value or {}).get("mode") == "IMPORT" and not force:
                subject = setting.subject
                names = self._catalogue.subjects() if subject is None else [subject]
                if any(self._catalogue.versions(each) for each in names):
                    raise not_permitted("Cannot import since found existing subjects; force=true does it all the same")
            await self._writer.write([setting])

    async def reset(self, kind: str, subject: str | None) -> None:
        """Take a setting back. Raises: Refused; NotTheWriter."""
        async with self._writer.turn():
            if kind == "CONFIG":
                self._refuse_read_only(subject)
            if subject is not None and self._catalogue.setting(kind, subject) is None:
                raise no_level(subject) if kind == "CONFIG" else no_mode(subject)
            await self._writer.write([Setting(kind, subject, None)])

    async def look_up(self, subject: str, understood: Understood, *, also_deleted: bool) -> Version:
        """Return the version of a subject that is a schema, in whatever spelling. Raises: Refused."""
        if not self._catalogue.versions(subject, also_deleted=also_deleted):
            raise no_subject(subject)
        understood = await self._as_registered(subject, understood, also_deleted=also_deleted)
        found = self._catalogue.find(subject, understood.schema, also_deleted=also_deleted)
        if found is None:
            raise no_schema()
        return found

    async def _as_registered(self, subject: str, understood: Understood, *, also_deleted: bool = False) -> Understood:
        """Return a schema in the spelling in which it is registered, under the subject first; as it is where it is new."""
        catalogue, schema = self._catalogue, understood.schema
        if catalogue.find(subject, schema, also_deleted=also_deleted) is not None:
            return understood
        alike = catalogue.alike(schema)
        own = [each for each in alike if catalogue.find(subject, each, also_deleted=also_deleted) is not None]
        for each in dict.fromkeys([*own, schema, *alike]):
            if each == schema and catalogue.id_of(schema) is not None:
                return understood
            if each != schema and (found := await self._spelled(each, understood)) is not None:
                return found
        return understood

    async def _spelled(self, other: Schema, understood: Understood) -> Understood | None:
        """Return a registered schema if it is another spelling of this one."""
        try:
            texts = tuple(self._catalogue.texts(other.references).items())
            found = await asyncio.to_thread(parsed_once, other, texts, normalize=False)
        except (InvalidSchema, Refused):  # one that an earlier release took
            return None
        return found if found.canonical == understood.canonical else None

    def _new_version(self, subject: str, wanted: RegistrationRequest, schema: Schema) -> Version:
        mode = self._catalogue.mode(subject)
        self._refuse_read_only(subject)
        if (mode == "IMPORT") != (wanted.id is not None):
            needed = "needs an id, since it" if mode == "IMPORT" else "may have no id, since it"
            raise not_permitted(f"Subject {subject} is in mode {mode}: a schema {needed} is not imported otherwise")
        catalogue = self._catalogue
        if wanted.id is None:
            return Version(
                subject, catalogue.next_version(subject), catalogue.id_of(schema) or catalogue.highest + 1, schema
            )
        held = catalogue.schema(wanted.id)
        if held is not None and held != schema:
            raise id_taken(wanted.id)
        number = wanted.version or catalogue.next_version(subject)
        taken = [each for each in catalogue.versions(subject, also_deleted=True) if each.version == number]
        if taken and taken[0].id != wanted.id:
            raise id_taken(taken[0].id)
        return Version(subject, number, wanted.id, schema)

    def _exact(self, reference: Reference) -> Reference:
        """Return a reference to what is the latest version now as one to that version."""
        return replace(reference, version=self._catalogue.version(reference.subject, reference.version).version)

    def _refuse_read_only(self, subject: str | None) -> None:
        mode = self._catalogue.mode(subject)
        if mode in {"READONLY", "READONLY_OVERRIDE"}:
            raise not_permitted(f"{'Everything' if subject is None else f'Subject {subject}'} is in read-only mode")

    def _refuse_referenced(self, version: Version) -> None:
        ids = self._catalogue.referring(version.subject, version.version)
        if ids:
            raise referenced(f"{version.subject} version {version.version}", ids[:20])

    def _gone(self, versions: Sequence[Version], *, permanent: bool) -> list[Entry]:
        if not permanent:
            return [deleted(each) for each in versions]
        gone: list[Entry] = [Forgotten(each.subject, each.version) for each in versions]
        # Else compaction forgets which ids were given, and who starts after it gives the highest again.
        top = [each.id for each in versions if each.id == self._catalogue.highest]
        return [*gone, highest(top[0])] if top else gone
