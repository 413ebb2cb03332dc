"""Compares what a choreography declares with every version that was ever registered."""

from collections.abc import Iterator, Sequence

from eventlib.codec.registry import Registry, Version
from eventlib.contracts.declared import Declared, level_of
from eventlib.contracts.problem import Problem, field_at, remedy_of
from eventlib.registry.compatibility import Level, SchemaType, unreadable
from eventlib.registry.parsing import InvalidSchema, Parsed, parse

NEW_VERSION = "NEW_CONTRACT_VERSION"


async def compared(registry: Registry, each: Declared) -> list[Problem]:
    """Return what is wrong with an event or a state, compared with every version of its subject."""
    versions = await registry.versions(each.subject)
    return list(dict.fromkeys(_found(each, versions, await level_of(registry, each))))


def _found(each: Declared, versions: Sequence[Version], level: Level) -> Iterator[Problem]:
    newest = max((each.version_in(version) for version in versions), default=each.version)
    if newest < each.version and level.forward:
        yield Problem(
            each.name,
            each.kind,
            f"version {versions[-1].version}",
            "",
            NEW_VERSION,
            f"its upcasters make it version {each.version} of its contract, which older code cannot read",
            f"say that it is meant so: eventlib schemas epoch {each.name}",
        )
    others = [version for version in versions if version.schema != each.schema]
    alike = [version for version in others if each.version_in(version) == each.version]
    for version in alike if level.transitive or each.version > 1 else alike[-1:]:
        yield from _against(each, version, level)


def _against(each: Declared, version: Version, level: Level) -> Iterator[Problem]:
    against = f"version {version.version}"
    if version.schema.kind != each.schema.kind:
        what = f"it was {version.schema.kind}, and is {each.schema.kind}"
        remedy = f"keep the format, or use a new topic in the place of {each.topic}"
        yield Problem(each.name, each.kind, against, "", "SCHEMA_TYPE_CHANGED", what, remedy)
        return
    try:
        mine, theirs = _parsed(each.schema), _parsed(version.schema)
    except InvalidSchema as error:
        yield Problem(each.name, each.kind, against, "", "INVALID_SCHEMA", str(error), "mend or delete that version")
        return
    if level.backward:
        yield from _unreadable(each, against, mine, theirs, backward=True)
    if level.forward:
        yield from _unreadable(each, against, theirs, mine, backward=False)


def _unreadable(each: Declared, against: str, reader: Parsed, writer: Parsed, *, backward: bool) -> Iterator[Problem]:
    who = f"today's {each.name} does not read what it wrote" if backward else f"it does not read today's {each.name}"
    for found in unreadable(reader=reader, writer=writer):
        field = field_at(reader.text, found.path)
        what = f"{who}: {found.message.partition(': ')[0]}"
        yield Problem(
            each.name, each.kind, against, field, found.rule, what, remedy_of(each, found.rule, backward=backward)
        )


def _parsed(schema: tuple[str, str]) -> Parsed:
    text, kind = schema
    return parse(SchemaType(kind), text)
