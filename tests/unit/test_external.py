"""What others write, as events: JSON, text, Avro without a header, and whatever else arrives."""

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any, Never

import pytest
from fastavro import parse_schema, schemaless_writer
from hypothesis import given as drawn
from hypothesis import strategies
from pydantic import BaseModel, Field

from eventlib import Choreography, Decider, Event, Service, Topic, WiringError
from eventlib.analysis.checks import check
from eventlib.analysis.diagram.building import picture
from eventlib.errors import ContractError, UndecodableRecord
from eventlib.external import Avro, ExternalRouter, Json, Text
from eventlib.model.event import ExternalFormat
from eventlib.model.record import Record
from tests.apps.smallest import Count, noting


class Place(BaseModel, frozen=True):
    city: str


class Clicked(Event, topic="web.clicks", key="user_id", external=Json()):
    user_id: str = Field(alias="userId")
    at: datetime
    price: Decimal = Decimal(0)
    place: Place | None = None
    tags: tuple[str, ...] = ()


class Logged(Event, topic="syslog", key="host", external=Text("line")):
    host: str
    line: str


PAYMENT: dict[str, Any] = {
    "type": "record",
    "name": "com.bank.Booking",
    "fields": [
        {"name": "iban", "type": "string"},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
        {"name": "fee", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 1}]},
        {"name": "booked_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "parts", "type": {"type": "array", "items": {
            "type": "record", "name": "Part", "fields": [
                {"name": "cents", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 0}},
                {"name": "rest", "type": ["null", "Part"]},
            ],
        }}},
        {"name": "nobody_asked_for", "type": "int"},
    ],
}  # fmt: skip


class Part(BaseModel):
    cents: int
    rest: "Part | None"


class Booked(Event, topic="bank", key="iban", external=Avro(json.dumps(PAYMENT))):
    iban: str
    amount: Decimal
    fee: Decimal | None
    booked_at: datetime
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Clicks:
    pass


def avro(**changed: Any) -> bytes:
    at = datetime(2026, 1, 2, 3, tzinfo=UTC)
    parts = [{"cents": Decimal(5), "rest": {"cents": Decimal(-6), "rest": None}}]
    value = {"iban": "DE1", "amount": Decimal("19.95"), "fee": Decimal("0.5"), "booked_at": at, "parts": parts}
    out = BytesIO()
    schemaless_writer(out, parse_schema(PAYMENT), {**value, "nobody_asked_for": 7, **changed})
    return out.getvalue()


def read(event_type: type[Event], value: bytes, key: str | None = None) -> Event:
    external = event_type.__contract__.external if event_type.__contract__ else None
    assert external is not None
    return external.decode(event_type, value, key)


def test_json_by_name_or_alias_with_unknown_fields_ignored() -> None:
    value = b'{"userId": "7", "at": "2026-01-02T03:00:00Z", "price": 1.5, "place": {"city": "Rome", "zip": 1}, "x": []}'
    clicked = read(Clicked, value)
    assert clicked.model_dump() == {
        "user_id": "7",
        "at": datetime(2026, 1, 2, 3, tzinfo=UTC),
        "price": Decimal("1.5"),
        "place": {"city": "Rome"},
        "tags": (),
    }
    assert read(Clicked, value.replace(b"userId", b"user_id")) == clicked


def test_a_key_field_that_the_value_lacks_is_the_records_key() -> None:
    value = b'{"at": "2026-01-02T03:00:00Z"}'
    assert getattr(read(Clicked, value, "from the key"), "user_id") == "from the key"  # noqa: B009  an event's own field
    named = b'{"at": "2026-01-02T03:00:00Z", "userId": "from the value"}'
    assert getattr(read(Clicked, named, "from the key"), "user_id") == "from the value"  # noqa: B009  as above


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (b"", "the record is not JSON"),
        (b"\x00\x01\x02", "the record is not JSON"),
        (b"[1, 2]", "the record is a JSON list, not an object"),
        (b'{"userId": "7"}', "Clicked: field at: Field required"),
        (b'{"userId": 7, "at": "yesterday"}', "field userId: Input should be a valid string; field at"),
        (b'{"a":' * 5_000, "the record is not JSON"),
    ],
)
def test_json_that_does_not_fit_says_what_is_wrong(value: bytes, sentence: str) -> None:
    with pytest.raises(ContractError, match=sentence.replace("(", r"\(")):
        read(Clicked, value)


def test_text_with_the_key_beside_it() -> None:
    assert read(Logged, "größe ☃".encode(), "h1") == Logged(host="h1", line="größe ☃")
    with pytest.raises(ContractError, match="the record is not text"):
        read(Logged, b"\xff", "h1")
    with pytest.raises(ContractError, match="field host: Field required"):
        read(Logged, b"no key")


def test_avro_of_a_given_schema_whose_names_are_not_ours() -> None:
    booked = read(Booked, avro())
    assert booked == Booked(
        iban="DE1",
        amount=Decimal("19.95"),
        fee=Decimal("0.5"),
        booked_at=datetime(2026, 1, 2, 3, tzinfo=UTC),
        parts=(Part(cents=5, rest=Part(cents=-6, rest=None)),),
    )
    assert getattr(read(Booked, avro(fee=None)), "fee") is None  # noqa: B009  an event's own field


@pytest.mark.parametrize("value", [b"", avro()[:-1], avro() + b"\x00", b"\x00\x00\x00\x00\x07" + avro(), b"\xff" * 40])
def test_avro_that_does_not_fit_is_refused(value: bytes) -> None:
    with pytest.raises(ContractError, match=r"Booked: (the bytes do not fit the schema|field)"):
        read(Booked, value)


def test_a_megabyte_of_decimal_digits_is_refused_at_once() -> None:
    digits = b"\x7f" * 1_000_000
    length = BytesIO()
    schemaless_writer(length, {"type": "bytes"}, digits)
    with pytest.raises(ContractError, match="a decimal of 12 digits does not have 1000000 bytes"):
        read(Booked, b"\x06DE1" + length.getvalue() + avro()[4 + 3 :])


@drawn(strategies.binary(max_size=200), strategies.sampled_from([Clicked, Logged, Booked]))
def test_whatever_the_bytes_are_it_is_an_event_or_a_contract_error(value: bytes, event_type: type[Event]) -> None:
    with suppress(ContractError):
        assert isinstance(read(event_type, value, "k"), event_type)


def test_a_form_of_ones_own() -> None:
    class Lines(ExternalFormat):
        def decode(self, event_type: Any, value: bytes, key: str | None) -> Any:
            name, _, cents = value.decode().partition("|")
            return event_type(name=name, cents=int(cents), key=key or "")

    class Sold(Event, topic="legacy", key="key", external=Lines()):
        key: str
        name: str
        cents: int

    assert read(Sold, b"tea|250", "1") == Sold(key="1", name="tea", cents=250)


# --- what is refused when it is declared


def test_a_text_field_that_is_not_there() -> None:
    with pytest.raises(WiringError, match=r"Text\('lines'\) names none of its fields \(host\)"):

        class Wrong(Event, topic="t", key="host", external=Text("lines")):
            host: str

    with pytest.raises(WiringError, match="no such encoding"):
        Text("line", encoding="klingon")


@pytest.mark.parametrize("schema", ["{", '{"type": "nothing"}', '{"type": "record", "name": "A", "fields": 3}'])
def test_what_is_no_schema(schema: str) -> None:
    with pytest.raises(WiringError, match="not an Avro schema"):
        Avro(schema)


def test_a_schema_of_something_else_than_a_record() -> None:
    with pytest.raises(WiringError, match="an event is an Avro record"):
        Avro('{"type": "array", "items": "int"}')


def test_an_external_topic_is_not_held_twice() -> None:
    with pytest.raises(WiringError, match="latest=True"):

        class Wrong(Event, topic=Topic("t", latest=True), key="host", external=Json()):
            host: str


class Customer(Event, topic="crm.customers", key="number", external=Json(), null={"deleted": True}):
    number: int
    name: str = ""
    deleted: bool = False


def test_a_record_without_a_value_is_the_event_that_its_class_declares() -> None:
    router = ExternalRouter([Customer], "0" * 32)
    gone = Record("crm.customers", 0, 7, 1_000, b"42", None)
    assert router.why_passed_over(gone) is None
    assert router.decode(gone) == Customer(number=42, deleted=True)
    with pytest.raises(UndecodableRecord, match="field number: Field required"):
        router.decode(gone.replace(key=None))


def test_a_record_without_a_value_and_without_a_meaning_is_passed_over() -> None:
    class Skipped(Event, topic="skipped", key="k", external=Json(), null="skip"):
        k: str

    router = ExternalRouter([Clicked, Skipped], "0" * 32)
    undeclared, skipped = (Record(topic, 0, 7, 1_000, b"42", None) for topic in ("web.clicks", "skipped"))
    assert "Clicked does not declare what that means" in (router.why_passed_over(undeclared) or "")
    assert router.why_passed_over(skipped) == 'it has no value, and Skipped declares null="skip"'
    assert router.why_passed_over(undeclared.replace(value=b"")) is None


@pytest.mark.parametrize(
    ("null", "sentence"),
    [
        ({"gone": True}, "names 'gone', which is none of its fields: name fields of the event"),
        ({}, "gives no 'name': give that, or a default on the class"),
        ("delete", 'write null="skip", or the fields of an event'),
    ],
)
def test_a_meaning_of_a_null_value_that_is_no_event_is_refused(null: Any, sentence: str) -> None:
    with pytest.raises(WiringError, match=re.escape(sentence)):

        class Wrong(Event, topic="t", key="k", external=Json(), null=null):
            k: str
            name: str

    with pytest.raises(WiringError, match="declare external= too"):

        class Own(Event, topic="t", key="k", null="skip"):
            k: str


def test_the_check_asks_what_a_null_value_means_on_a_compacted_topic() -> None:
    def listening(null: Any, *, compacted: bool) -> Choreography:
        class Thing(Event, topic=Topic("things", compacted=compacted), key="key", external=Json(), null=null):
            key: str

        decider: Decider[Clicks] = Decider("things", state=Clicks, key="key")

        @decider.on(Thing)
        def note(_clicks: Clicks, _event: Thing) -> list[Never]:
            return []

        return Choreography("c", [Service("c", deciders=[decider])])

    (finding,) = check(listening(None, compacted=True))
    assert (finding.rule, finding.subject, finding.severity) == ("null-without-meaning", "Thing", "warning")
    assert check(listening("skip", compacted=True)) == check(listening({}, compacted=True)) == []
    assert check(listening(None, compacted=False)) == []


def test_an_external_topic_has_one_event_type() -> None:
    class One(Event, topic="theirs", key="k", external=Json()):
        k: str

    class Two(Event, topic="theirs", key="k"):
        k: str

    with pytest.raises(WiringError, match=r"topic 'theirs' is external, and such a topic has one event type.*One, Two"):
        Choreography("c", [noting()], facts=[One, Two])


def test_no_decider_may_emit_an_external_event() -> None:
    decider: Decider[Count] = Decider("d", state=Count, key="user_id")
    with pytest.raises(WiringError, match="Clicked is external: others write its topic"):

        @decider.on(Clicked)
        def echo(_count: Count, event: Clicked) -> list[Clicked]:
            return [event]


def test_a_request_has_a_key() -> None:
    class Asked(Event, topic="asked", key=None, request=True):
        text: str

    decider: Decider[Count] = Decider("d", state=Count, key=None)
    with pytest.raises(WiringError, match="is a request without a key"):

        @decider.on(Asked)
        def answer(_count: Count, _event: Asked) -> list[Never]:
            return []


def test_an_external_event_comes_from_outside() -> None:
    decider: Decider[Clicks] = Decider("clicks", state=Clicks, key="user_id")

    @decider.on(Clicked)
    def note(_clicks: Clicks, _event: Clicked) -> list[Never]:
        return []

    web = Choreography("web", [Service("web", deciders=[decider])])
    assert check(web) == []
    arrows = picture(web).arrows
    assert [(arrow.source, arrow.target) for arrow in arrows] == [("Clicked", "listener/clicks")]
