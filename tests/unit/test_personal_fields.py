"""What can be declared personal, and what becomes of it in each format."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast

import pytest
from pydantic import ConfigDict, Field, field_validator, model_validator

from eventlib import Aliases, Decider, Event, Topic, wire_name
from eventlib.codec.formats import format_of
from eventlib.codec.wire_format import FramedCodec
from eventlib.errors import ContractError, WiringError
from eventlib.external import Json
from eventlib.log.memory import MemoryLog
from eventlib.model.personal import personal_fields
from eventlib.personal import ERASED, MASKED, Personal, is_erased, masked
from eventlib.personal.base import PREFIX, Mask
from eventlib.personal.cipher import EphemeralCipher
from eventlib.personal.master import FileMaster
from eventlib.personal.ring import KeyRing, StoreMask, erase
from eventlib.personal.secret_file import create_secret
from eventlib.personal.sqlite_store import SqliteKeyStore
from eventlib.queries.index_columns import columns_of
from tests.apps.people import Card, Known, Text


def test_personal_fields_are_named_with_their_subjects() -> None:
    assert personal_fields(Known) == {"name": "person_id", "phone": "person_id"}
    assert personal_fields(Card) == {"name": "person_id"}


def declare(fields: dict[str, Any], body: dict[str, Any] | None = None, **options: Any) -> type[Event]:
    given = {"key": str, "person_id": str, **fields}
    options = {"topic": "people", "key": "key", **options}
    return cast(
        "type[Event]",
        type("Bad", (Event,), {"__annotations__": given, "__module__": __name__, **(body or {})}, **options),
    )


def validated(_cls: object, value: str) -> str:
    return value


@pytest.mark.parametrize(
    ("fields", "body", "options", "because"),
    [
        ({"name": Annotated[str, Personal(subject="nobody")]}, {}, {}, "its subject 'nobody' has to be a field"),
        ({"number": int, "name": Annotated[str, Personal(subject="number")]}, {}, {}, "str or str | None"),
        ({"age": Annotated[int, Text]}, {}, {}, "whole text field"),
        ({"names": list[Annotated[str, Text]]}, {}, {}, "whole text field"),
        ({"name": Annotated[str, Text] | None}, {}, {}, "whole text field"),
        ({"card": Card}, {}, {}, "not inside of its type or in a part"),
        ({"cards": dict[str, tuple[Card, ...]]}, {}, {}, "not inside of its type or in a part"),
        ({"name": Annotated[str, Text, Field(max_length=3)]}, {}, {}, "no constraints"),
        ({"name": Annotated[str, Text, Text]}, {}, {}, "one subject"),
        ({"person_id": Annotated[str, Personal(subject="key")], "name": Annotated[str, Text]}, {}, {}, "personal itself"),
        ({"name": Annotated[str, Text]}, {}, {"key": "name"}, "its key 'name' is personal"),
        ({"name": Annotated[str, Text]}, {}, {"external": Json()}, "external"),
        ({"name": Annotated[str, Text]}, {"check": field_validator("name")(classmethod(validated))}, {}, "validator"),
        ({"name": Annotated[str, Text]}, {"check": model_validator(mode="after")(lambda self: self)}, {}, "validator"),
        ({"name": Annotated[str, Text]}, {"model_config": ConfigDict(str_to_lower=True)}, {}, "str_"),
    ],
)  # fmt: skip
def test_what_could_not_be_honoured_is_refused_at_import(
    fields: dict[str, Any], body: dict[str, Any], options: dict[str, Any], because: str
) -> None:
    with pytest.raises(WiringError, match=because.replace("|", r"\|").replace("(", r"\(")):
        declare(fields, body, **options)


def test_a_state_that_looks_into_its_fields_is_refused() -> None:
    @dataclass(frozen=True)
    class Curious(Card):
        def __post_init__(self) -> None:
            """Look."""

    with pytest.raises(WiringError, match="__post_init__"):
        Decider("curious", state=Curious, key="key")


def test_an_index_of_a_personal_field_is_refused() -> None:
    with pytest.raises(WiringError, match="name, which is personal"):
        columns_of(Decider("card", state=Card, key="key"), [("name",)])


def test_the_repr_of_an_event_is_without_personal_texts() -> None:
    assert "Ada" not in repr(Known(key="1", person_id="p", name="Ada", phone="7"))


@pytest.mark.parametrize("kind", ["avro", "json", "protobuf"])
async def test_each_format_has_ciphertext_in_a_string(kind: str) -> None:
    class Told(Event, topic=Topic("people", format=kind), key="key"):
        key: str
        person_id: str
        name: Annotated[str, Text]
        phone: Annotated[str | None, Text] = None
        email: Annotated[str, Text] = ""

    log = MemoryLog()
    codec = FramedCodec(log, personal=EphemeralCipher())
    await codec.prepare([("people", Told)])
    event = Told(
        key="1", person_id="p", name="Ada Lovelace \ud83c\udf39".encode("utf-16", "surrogatepass").decode("utf-16")
    )
    data = codec.encode(event)
    assert b"Ada Lovelace" not in data  # "Ada" alone is in one of some thousand ciphertexts
    assert PREFIX.encode() in data
    assert codec.encode(event) == data
    assert codec.gives(event, data)
    assert codec.decode(Told, data) == event
    assert event.name.startswith("Ada")
    masked = FramedCodec(log, codec.registry)  # a reader beside it
    assert codec.decode(Told, data).name != masked.decode(Told, data).name == MASKED
    assert masked.decode(Told, data).phone is None
    assert masked.decode(Told, data).email == ""
    await masked.prepare([("people", Told)])
    with pytest.raises(WiringError, match="no right to write"):
        masked.encode(event)
    assert not masked.gives(event, data)


async def test_a_state_is_sealed_as_an_event_is() -> None:
    codec = FramedCodec(MemoryLog(), personal=EphemeralCipher())
    await codec.prepare([("cards", Card)])
    for state in (Card(), Card("p", "Ada Lovelace", 3), Card("p", ERASED), Card("", ERASED)):
        data = codec.encode(state)
        assert b"Ada Lovelace" not in data
        assert codec.decode(Card, data) == state
    with pytest.raises(ContractError, match=r"\(name\), but person_id names no subject"):
        codec.encode(Card("", "Ada"))


async def test_text_of_before_the_field_was_personal_is_read_and_masked() -> None:
    @dataclass(frozen=True)
    class Before:
        person_id: str = ""
        name: str = ""
        calls: int = 0

    Before.__name__ = "Card"
    codec = FramedCodec(MemoryLog(), personal=EphemeralCipher())
    await codec.prepare([("cards", Before)])
    data = codec.encode(Before("p", "Ada"))
    assert codec.decode(Card, data).name == "Ada"
    masked = FramedCodec(MemoryLog(), codec.registry)
    assert masked.decode(Card, data).name == MASKED


async def test_a_field_with_another_name_is_decrypted_as_before() -> None:
    @wire_name("Card")
    @dataclass(frozen=True)
    class Renamed:
        person_id: str = ""
        full_name: Annotated[str, Text, Aliases("name")] = ""
        calls: int = 0

    codec = FramedCodec(MemoryLog(), personal=EphemeralCipher())
    await codec.prepare([("cards", Card)])
    assert codec.decode(Renamed, codec.encode(Card("p", "Ada"))) == Renamed("p", "Ada")


async def test_text_of_before_reads_as_erased_once_its_subject_is(tmp_path: Path) -> None:
    create_secret(tmp_path / "master.key")
    store = SqliteKeyStore(tmp_path / "log.keys", create=True)
    ring = KeyRing(store, FileMaster(tmp_path / "master.key"), create=True)
    mask = StoreMask(store)
    assert (ring.decrypt("Ada", "p"), mask.decrypt("Ada", "p"), Mask().decrypt("Ada", "p")) == ("Ada", MASKED, MASKED)
    erase(store, "p")
    await asyncio.sleep(0.05)
    assert (ring.decrypt("Ada", "p"), mask.decrypt("Ada", "p"), Mask().decrypt(ERASED, "p")) == (ERASED, ERASED, MASKED)
    assert ring.decrypt("Bob", "q") == ring.decrypt("Bob", "") == "Bob"
    store.close()


def test_a_mask_covers_what_a_reader_may_not_see() -> None:
    event = Known(key="1", person_id="p", name="Ada", phone=None)
    assert masked(event) == Known(key="1", person_id="p", name=MASKED, phone=None)
    assert masked(Card("p", "Ada", 3)) == Card("p", MASKED, 3)
    erased = Card("p", ERASED)
    assert masked(erased) is erased


def test_the_schema_keeps_the_type() -> None:
    @dataclass(frozen=True)
    class Plain:
        person_id: str = ""
        name: str = ""
        calls: int = 0

    codec = FramedCodec(MemoryLog())
    assert codec.schema_of(Card).text.replace("Card", "") == codec.schema_of(Plain).text.replace("Plain", "")
    assert format_of("AVRO") is format_of("AVRO")
    assert is_erased(ERASED)
    assert not is_erased("Ada")
