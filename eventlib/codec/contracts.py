"""Whether a class reads what every version of its contract has written: asked before it writes anything itself."""

from collections.abc import Iterable, Mapping, Sequence

from eventlib.codec.avro.types import Record
from eventlib.codec.format import format_of
from eventlib.codec.registry import Schema, Version
from eventlib.errors import ContractError, WiringError

_VALUE_CHANGES = frozenset({"LOGICAL_TYPE_MISMATCH"})
"""Rules about readers that go by the bytes alone: ours converts what it can, and refuses the rest when it is made."""


def refuse_breaking(record: Record, versions: Sequence[Version]) -> None:
    """Refuse a class that cannot read what stands on the log, before it writes there. Raises: ContractError."""
    unreadable = unreadable_of(record, versions)
    for version in versions:
        if version.id in unreadable:
            raise ContractError(
                f"{record.name} cannot read what version {version.version} of {version.subject} has written: "
                f"{unreadable[version.id]}. See `eventlib schemas check`; what no schema can bridge is bridged by an "
                f"upcaster, @upcasts({record.name}, version={record.version})"
            )


def unreadable_of(record: Record, versions: Iterable[Version]) -> Mapping[int, str]:
    """Return which versions a class cannot read, by their ids, and why."""
    found = {version.id: reason_against(record, version.schema) for version in versions}
    return {number: why for number, why in found.items() if why}


def reason_against(record: Record, written: Schema) -> str:
    """Return why a class cannot read what a schema has written; nothing when it can."""
    try:
        mine = format_of(written.kind)
        mine.reader(record, written.text, 0)
    except (ContractError, WiringError) as error:
        return str(error)
    own = mine.schema(record)
    if own == written or mine.version_in(written.text) != record.version:
        return ""  # of another version, whose upcasters were looked for above
    from eventlib.registry.compatibility import SchemaType, unreadable
    from eventlib.registry.parsing import InvalidSchema, parse

    try:
        reader, writer = (parse(SchemaType(written.kind), schema.text) for schema in (own, written))
    except InvalidSchema as error:
        return str(error)
    found = [each for each in unreadable(reader=reader, writer=writer) if each.rule not in _VALUE_CHANGES]
    return f"{found[0].path}: {found[0].message}" if found else ""
