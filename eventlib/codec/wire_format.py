"""The codec: Confluent's wire format, schemas from classes, ids from a registry."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar, cast

from eventlib.codec.base import Codec, UnknownSchema
from eventlib.codec.formats import format_of
from eventlib.codec.personal_fields import bound, fields_in, opening, sealing, subjects_of, unbound
from eventlib.codec.registry import AVRO, Registry, Schema, Version
from eventlib.codec.schema_ids import Schemas
from eventlib.errors import ContractError, WiringError
from eventlib.log.base import Log
from eventlib.model.event import Event
from eventlib.model.schema.derive import record_of
from eventlib.model.schema.types import Record
from eventlib.personal.base import FieldCipher, Mask

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
    found = {version.id: _reason_against(record.cls, version.schema) for version in versions}
    return {number: why for number, why in found.items() if why}


T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

_COMPILED = 512
"""How many readers and writers a process keeps for all its codecs: making one takes milliseconds."""


def _kept(make: F) -> F:
    return cast("F", lru_cache(maxsize=_COMPILED)(make))


@_kept
def _reason_against(cls: type[Any], written: Schema) -> str:
    """Return why a class cannot read what a schema has written; nothing when it can."""
    record = record_of(cls)
    try:
        mine = format_of(written.kind)
        _reader(cls, written)
    except (ContractError, WiringError) as error:
        return str(error)
    own = mine.schema(record)
    if own == written or mine.version_in(written.text) != record.version:
        return ""  # of another version, whose upcasters were looked for above
    from eventlib.registry.compatibility import SchemaType, unreadable
    from eventlib.registry.parsing import InvalidSchema, parse

    try:
        reader, writer = (parse(SchemaType(written.kind), schema.text) for schema in (own, written))
        broken = unreadable(reader=reader, writer=writer)
    except InvalidSchema as error:
        return str(error)
    except RecursionError:
        return "its types lead to each other too deeply to be compared"
    found = [each for each in broken if each.rule not in _VALUE_CHANGES]
    return f"{found[0].path}: {found[0].message}" if found else ""


MAGIC = 0
HEADER_BYTES = 5
"""A zero byte and the schema's id, four bytes big-endian, as every registry client knows them."""


class FramedCodec(Codec):
    """Events and states in their topic's format, each with its writer's schema id in front.

    With `auto_register` a schema that is new is registered, if what stands on the log can be read with it; else it is
    refused. `personal` encrypts and decrypts personal fields; by default they are not written, and read as masked.
    Guarantee: decode raises nothing but ContractError and UnknownSchema, whatever the bytes are, and needs
    memory in proportion to them. Source: Confluent's wire format; Apache Avro 1.12, "Schema Resolution".
    """

    def __init__(
        self,
        log: Log,
        registry: Registry | None = None,
        *,
        auto_register: bool = True,
        personal: FieldCipher | None = None,
    ) -> None:
        self.personal = personal or Mask()
        self.registry: Registry = Schemas(log) if registry is None else registry
        self.auto_register = auto_register
        self._personal: dict[type, Mapping[str, str]] = {}
        self._records: dict[type, Record] = {}
        self._writers: dict[type, Callable[[Any], bytes]] = {}
        self._readers: dict[type, dict[bytes, Callable[[bytes], Any]]] = {}
        self._rewriters: dict[tuple[type, bytes], Callable[[Any], bytes] | None] = {}

    async def prepare(self, types: Iterable[tuple[str, type[Any]]]) -> None:
        """Register the schemas of (topic, class) pairs under `<topic>-<class name>`, all in one append.

        Guarantee: only reads when all of them are registered. Raises: WiringError for a class with a field that its
        format cannot hold; ContractError, and nothing is written, for a schema that is new where none is registered
        without being asked to, or that cannot read what is there.
        """
        pairs = [(self.subject(topic, cls), cls) for topic, cls in types]
        wanted = [(subject, self.schema_of(cls)) for subject, cls in pairs]
        ids = await self.registry.ids(wanted)
        new = [(pair, want) for pair, want, number in zip(pairs, wanted, ids, strict=True) if number is None]
        for (subject, cls), _ in new:
            self._refuse_unregistered(subject, cls)
            if issubclass(cls, Event):  # of states, only those that are still there have to be read
                refuse_breaking(self._record_of(cls), await self.registry.versions(subject))
        if new:
            await self.registry.register(want for _, want in new)
            ids = await self.registry.ids(wanted)
        for (_, cls), (_, schema), number in zip(pairs, wanted, ids, strict=True):
            if cls not in self._writers:
                self._writers[cls] = self._sealing(cls, _writer(cls, schema.kind, _header(_known(number, schema))))

    def subject(self, topic: str, cls: type[Any]) -> str:
        """Return the subject under which a class's schemas are kept."""
        return f"{topic}-{self._record_of(cls).name}"

    def schema_of(self, cls: type[Any]) -> Schema:
        """Return a class's schema in its topic's format. Raises: WiringError."""
        return format_of(_kind_of(cls)).schema(self._record_of(cls))

    async def unreadable(self, topic: str, cls: type[Any]) -> Mapping[bytes, str]:
        """Return which of a subject's versions a class cannot read: the header of what they wrote, and why."""
        versions = await self.registry.versions(self.subject(topic, cls))
        return {_header(number): why for number, why in unreadable_of(self._record_of(cls), versions).items()}

    async def refresh(self) -> None:
        """Learn the schemas that others have registered since."""
        await self.registry.refresh()

    def encode(self, value: object) -> bytes:
        """Return a prepared class's value as framed bytes.

        Raises: ContractError, with the field's name, when it does not fit; WiringError for a class not prepared.
        """
        write = self._writers.get(type(value))
        if write is None:
            raise WiringError(f"{type(value).__name__} has no schema id yet: call prepare with its topic first")
        return write(value)

    def prepare_subjects(self, values: Iterable[object]) -> None:
        """See `Codec.prepare_subjects`."""
        if self._personal:
            self.personal.prepare(subjects_of(values, self._personal))

    def seal(self, value: object, name: str, text: str) -> str:
        """See `Codec.seal`."""
        return bound(self.personal, value, name, text)

    def unseal(self, sealed: str) -> str:
        """See `Codec.unseal`."""
        return unbound(self.personal, sealed)

    def decode(self, expected: type[T], data: bytes) -> T:
        """Return framed bytes, of any version of a class's schema, as a validated instance of the class.

        Raises: UnknownSchema for an id not seen yet; ContractError for bytes that cannot be read.
        """
        try:
            read = self._readers[expected][data[:HEADER_BYTES]]
        except KeyError:
            read = self._reader(expected, data)
        return cast("T", read(data))

    def rewriter(self, cls: type[Any], data: bytes) -> Callable[[Any], bytes] | None:
        """See `Codec.rewriter`."""
        header = data[:HEADER_BYTES]
        try:
            return self._rewriters[cls, header]
        except KeyError:
            write = self._rewriters[cls, header] = self._rewriter(cls, header)
            return write

    def _rewriter(self, cls: type[Any], header: bytes) -> Callable[[Any], bytes] | None:
        if len(header) < HEADER_BYTES or header[0] != MAGIC:
            return None
        schema = self.registry.schema(int.from_bytes(header[1:], "big"))
        if schema is None or schema != self.schema_of(cls):
            return None
        return self._sealing(cls, _writer(cls, schema.kind, header))

    def _reader(self, expected: type[Any], data: bytes) -> Callable[[bytes], Any]:
        header = data[:HEADER_BYTES]
        if len(header) < HEADER_BYTES:
            raise ContractError(f"{expected.__name__}: {len(data)} bytes are too few for a magic byte and a schema id")
        if header[0] != MAGIC:
            raise ContractError(f"{expected.__name__}: the first byte is {header[0]}, not the magic byte {MAGIC}")
        schema_id = int.from_bytes(header[1:], "big")
        schema = self.registry.schema(schema_id)
        if schema is None:
            raise UnknownSchema(f"{expected.__name__}: schema id {schema_id} is not known here; refresh and try again")
        read = _reader(expected, schema)
        if fields := fields_in(self._record_of(expected)):
            read = opening(self.personal, fields, read)
        self._readers.setdefault(expected, {})[header] = read
        return read

    def _sealing(self, cls: type[Any], write: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
        fields = fields_in(self._record_of(cls))
        if not fields:
            return write
        self._personal[cls] = fields
        return sealing(self.personal, fields, write)

    def _record_of(self, cls: type[Any]) -> Record:
        if cls not in self._records:
            self._records[cls] = record_of(cls)
        return self._records[cls]

    def _refuse_unregistered(self, subject: str, cls: type[Any]) -> None:
        if self.auto_register or cls.__module__.partition(".")[0] == "eventlib":
            return  # what the toolkit writes for itself changes with the toolkit
        raise ContractError(
            f"the schema of {cls.__name__} is not registered under {subject}, and nothing registers it by itself here "
            "(EVENTLIB_AUTO_REGISTER=0): see `eventlib schemas check`, then `eventlib schemas register`"
        )


def _kind_of(cls: type[Any]) -> str:
    """Return the format of what a class writes: its topic's, and Avro for what the toolkit keeps for itself."""
    contract = cls.__contract__ if issubclass(cls, Event) else None
    return AVRO if contract is None else contract.topic.format.upper()


@_kept
def _reader(cls: type[Any], schema: Schema) -> Callable[[bytes], Any]:
    return format_of(schema.kind).reader(record_of(cls), schema.text, HEADER_BYTES)


@_kept
def _writer(cls: type[Any], kind: str, header: bytes) -> Callable[[Any], bytes]:
    return format_of(kind).writer(record_of(cls), header)


def _known(number: int | None, schema: Schema) -> int:
    if number is None:
        raise ContractError(f"the registry does not know what was registered a moment ago: {schema.text:.100}")
    return number


def _header(schema_id: int) -> bytes:
    return bytes([MAGIC]) + schema_id.to_bytes(4, "big")
