"""What a registry knows: the fold of its topic."""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

from eventlib.registry.canonical import signature
from eventlib.registry.compatibility import Level
from eventlib.registry.errors import Refused, invalid_schema, no_subject, no_version
from eventlib.registry.records import (
    HIGHEST,
    Entry,
    Forgotten,
    Reference,
    Schema,
    Setting,
    SubjectDeleted,
    Version,
    deleted,
)

LATEST = -1


class Catalogue:
    """Subjects, their versions, schemas by id, levels and modes; `default` is the level where none was set."""

    def __init__(self, default: Level) -> None:
        self.default = default
        self.highest = 0
        self._versions: dict[str, dict[int, Version]] = {}
        self._places: dict[int, dict[tuple[str, int], Version]] = {}
        self._ids: dict[Schema, int] = {}
        self._alike: dict[Hashable, set[Schema]] = {}
        self._settings: dict[tuple[str, str | None], Mapping[str, Any]] = {}

    def learn(self, entry: Entry) -> None:
        """Apply the next record of the topic."""
        match entry:
            case Version():
                self._forget(entry.subject, entry.version)
                self._keep(entry)
            case Forgotten(subject, version):
                self._forget(subject, version)
            case SubjectDeleted(subject, version):
                for each in [*self._versions.get(subject, {}).values()]:
                    if each.version <= version and not each.deleted:
                        self._forget(subject, each.version)
                        self._keep(deleted(each))
            case Setting(kind, subject, value):
                self._settings.pop((kind, subject), None)
                if value is not None:
                    self._settings[kind, subject] = value

    def id_of(self, schema: Schema) -> int | None:
        """Return the id that a schema has, under any subject."""
        return self._ids.get(schema)

    def alike(self, schema: Schema) -> list[Schema]:
        """Return the schemas that may be a schema in another spelling, those of the lowest ids first."""
        return sorted(self._alike.get(signature(schema), ()), key=self._ids.__getitem__)

    def schema(self, schema_id: int) -> Schema | None:
        """Return a schema by id; one that is only deleted softly still has it."""
        found = self._places.get(schema_id)
        return next(iter(found.values())).schema if found else None

    def places(self, schema_id: int, *, also_deleted: bool = False) -> list[Version]:
        """Return where a schema is registered."""
        found = self._places.get(schema_id, {}).values()
        return sorted(
            (each for each in found if also_deleted or not each.deleted), key=lambda at: (at.subject, at.version)
        )

    def subjects(self, *, also_deleted: bool = False) -> Iterator[str]:
        """Yield the subjects by name."""
        for subject in sorted(self._versions):
            if self.versions(subject, also_deleted=also_deleted):
                yield subject

    def versions(self, subject: str, *, also_deleted: bool = False) -> list[Version]:
        """Return a subject's versions, the oldest first."""
        found = self._versions.get(subject, {})
        return [found[number] for number in sorted(found) if also_deleted or not found[number].deleted]

    def version(self, subject: str, number: int, *, also_deleted: bool = False) -> Version:
        """Return a version, LATEST too. Raises: Refused when there is none."""
        found = self.versions(subject, also_deleted=also_deleted)
        if not found:
            raise no_subject(subject)
        wanted = found[-1] if number == LATEST else next((each for each in found if each.version == number), None)
        if wanted is None:
            raise no_version(number)
        return wanted

    def find(self, subject: str, schema: Schema, *, also_deleted: bool = False) -> Version | None:
        """Return the newest version of a subject that is this schema."""
        found = self.versions(subject, also_deleted=also_deleted)
        return next((each for each in reversed(found) if each.schema == schema), None)

    def next_version(self, subject: str) -> int:
        """Return the number of a subject's next version."""
        return max(self._versions.get(subject, {}), default=0) + 1

    def referring(self, subject: str, version: int) -> list[int]:
        """Return the ids of the schemas that refer to a version and are not deleted."""
        wanted = (subject, version)
        return sorted(
            schema_id
            for schema_id, places in self._places.items()
            if any(not each.deleted for each in places.values())
            and any((each.subject, each.version) == wanted for each in next(iter(places.values())).schema.references)
        )

    def texts(self, references: Iterable[Reference]) -> dict[str, str]:
        """Return the texts that references lead to, by name, those that others refer to first.

        Raises: Refused for one that leads to nothing.
        """
        found: dict[str, str] = {}
        self._collect(references, found)
        return found

    def setting(self, kind: str, subject: str | None) -> Mapping[str, Any] | None:
        """Return a subject's own setting, or everyone's (None)."""
        return self._settings.get((kind, subject))

    def level(self, subject: str | None) -> Level:
        """Return the level that goes for a subject."""
        for each in (subject, None):
            value = (self.setting("CONFIG", each) or {}).get("compatibilityLevel")
            if isinstance(value, str) and value in {*Level}:
                return Level(value)
        return self.default

    def normalizes(self, subject: str) -> bool:
        """Tell whether what comes for a subject is normalised without being asked."""
        own, all_of = self.setting("CONFIG", subject) or {}, self.setting("CONFIG", None) or {}
        return bool(own.get("normalize", all_of.get("normalize", False)))

    def mode(self, subject: str | None) -> str:
        """Return the mode that goes for a subject."""
        own, all_of = self.setting("MODE", subject), self.setting("MODE", None)
        if all_of is not None and all_of.get("mode") == "READONLY_OVERRIDE":
            return "READONLY_OVERRIDE"
        return str((own or all_of or {}).get("mode", "READWRITE"))

    def _collect(self, references: Iterable[Reference], found: dict[str, str]) -> None:
        for each in references:
            if each.name in found:
                continue
            try:
                version = self.version(each.subject, each.version)
            except Refused as error:
                where = f"subject '{each.subject}' version {each.version}"
                raise invalid_schema(f"the reference '{each.name}' leads to nothing: {where} not found") from error
            self._collect(version.schema.references, found)
            found[each.name] = version.schema.text

    def _keep(self, version: Version) -> None:
        self.highest = max(self.highest, version.id)
        if version.subject == HIGHEST:
            return
        self._versions.setdefault(version.subject, {})[version.version] = version
        self._places.setdefault(version.id, {})[version.subject, version.version] = version
        if self._ids.setdefault(version.schema, version.id) == version.id:
            self._alike.setdefault(signature(version.schema), set()).add(version.schema)

    def _forget(self, subject: str, number: int) -> None:
        version = self._versions.get(subject, {}).pop(number, None)
        if version is None:
            return
        if not self._versions[subject]:
            del self._versions[subject]
        places = self._places[version.id]
        del places[subject, number]
        if not places:
            del self._places[version.id]
            if self._ids.get(version.schema) == version.id:
                del self._ids[version.schema]
                alike = self._alike[shared := signature(version.schema)]
                alike.discard(version.schema)
                if not alike:
                    del self._alike[shared]
