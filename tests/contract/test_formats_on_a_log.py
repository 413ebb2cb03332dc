"""One choreography in each format: through the runtime, on the wire, in a tail, in a replay, and with clients of others."""

import gzip
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP
from jsonschema import Draft7Validator

from eventlib import Choreography, Decider, Event, Service, open_log
from eventlib.codec.protobuf.schema import protobuf_file
from eventlib.codec.remote_registry import RemoteRegistry
from eventlib.codec.wire_format import FramedCodec
from eventlib.contracts.exporting import exported
from eventlib.contracts.preflight import verdict
from eventlib.log.memory import MemoryLog
from eventlib.model.schema.derive import record_of
from eventlib.model.states import replace
from eventlib.model.topic import FORMATS, Topic
from eventlib.queries.state import state_of
from eventlib.replay import replay
from tests.contract.registry_servers import value_of
from tests.handling import handle_all


@dataclass(frozen=True)
class Line:
    sku: str
    quantity: int


@dataclass(frozen=True)
class Basket:
    lines: tuple[Line, ...] = ()
    total_cents: int = 0


class Shop:
    """A small choreography whose topics have a format."""

    def __init__(self, form: str) -> None:
        class BasketSent(Event, topic=Topic("baskets", format=form), key="basket", request=True):
            basket: str
            lines: tuple[Line, ...]
            sent_at: datetime
            note: str | None = None

        class BasketPriced(Event, topic=Topic("prices", format=form), key="basket", final=True):
            basket: str
            total_cents: int

        baskets = Decider("basket", state=Basket, key="basket")

        @baskets.evolve
        def evolve(basket: Basket, event: Event) -> Basket:
            match event:
                case BasketSent(lines=lines):
                    return replace(basket, lines=lines)
                case BasketPriced(total_cents=cents):
                    return replace(basket, total_cents=cents)
                case _:
                    return basket

        @baskets.on(BasketSent)
        def price(_: Basket, sent: BasketSent) -> list[BasketPriced]:
            return [BasketPriced(basket=sent.basket, total_cents=100 * sum(line.quantity for line in sent.lines))]

        self.sent, self.priced = BasketSent, BasketPriced
        self.choreography = Choreography("small", [Service("baskets", deciders=[baskets])])

    def event(self, basket: str, *quantities: int) -> Event:
        lines = tuple(Line(f"sku-{i}", quantity) for i, quantity in enumerate(quantities))
        return self.sent(basket=basket, lines=lines, sent_at=datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC))


GOLDEN = Path(__file__).parent.parent / "golden"
SHOPS = {form: Shop(form) for form in FORMATS}


@pytest.mark.parametrize("form", FORMATS)
async def test_a_choreography_runs_in_each_format(form: str, tmp_path: Path) -> None:
    shop = SHOPS[form]
    async with open_log(f"sqlite:///{tmp_path}/log.db", shop.choreography) as log:
        for number in range(20):
            await log.publish(shop.event(f"b{number}", *range(1, number + 2)))
        await handle_all(log)
        assert (await state_of(log, "basket", "b3")).state.total_cents == 1_000
    async with open_log(f"sqlite:///{tmp_path}/log.db", shop.choreography, read_only=True) as log:
        records = [record for p in range(8) for record in await log.port.read("baskets", p, 0, 99)]
        found_events: list[Any] = [event for _, event in await log.decode_many(records)]
        assert len(found_events) == 20
        assert all(e == shop.event(e.basket, *range(1, len(e.lines) + 1)) for e in found_events)
        body = (records[0].value or b"")[5:]
        assert {"json": body.startswith(b'{"basket":"b'), "protobuf": body.startswith(b"\x00\x0a\x02b")}.get(form, True)
        report = await replay(log)
        assert (report.same, report.decisions) == (True, 20)
        found = await verdict(log, sample=100)
        assert (found.problems, found.decoded) == ((), 60)
        kinds = {version.schema.kind for version in await log.codec.registry.versions("baskets-BasketSent")}
        assert kinds == {form.upper()}


@pytest.mark.parametrize("form", FORMATS)
def test_a_documents_payloads_are_in_their_topics_format(form: str) -> None:
    (text,) = exported(SHOPS[form].choreography, "asyncapi").values()
    official = json.loads(gzip.decompress((GOLDEN / "asyncapi-3.0.0.json.gz").read_bytes()))
    assert [error.message for error in Draft7Validator(official).iter_errors(json.loads(text))] == []
    payload = json.loads(text)["components"]["messages"]["BasketSent"]["payload"]
    assert form in payload["schemaFormat"].replace("schema+json", "json")


async def codec_at(url: str, form: str) -> FramedCodec:
    codec = FramedCodec(MemoryLog(), RemoteRegistry(url))
    await codec.prepare([("baskets", SHOPS[form].sent)])
    return codec


async def test_json_goes_to_and_from_a_client_of_others(url: str) -> None:
    from confluent_kafka.schema_registry import Schema as TheirSchema
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer

    codec, event = await codec_at(url, "json"), SHOPS["json"].event("b1", 2, 3)
    plain = {
        "basket": "b1",
        "lines": [{"sku": "sku-0", "quantity": 2}, {"sku": "sku-1", "quantity": 3}],
        "sent_at": "2026-01-02T03:04:05.678000+00:00",
        "note": None,
    }
    text = codec.schema_of(SHOPS["json"].sent).text
    with SchemaRegistryClient({"url": url}) as client:
        assert JSONDeserializer(text, schema_registry_client=client)(codec.encode(event), value_of("baskets")) == plain
        write: Any = JSONSerializer(TheirSchema(text, "JSON"), client)
        data = write(plain, value_of("baskets"))
    assert await codec.known(lambda: codec.decode(SHOPS["json"].sent, data)) == event
    await codec.registry.close()


async def test_protobuf_goes_to_and_from_a_client_of_others(url: str) -> None:
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer

    shop = SHOPS["protobuf"]
    codec, event = await codec_at(url, "protobuf"), shop.event("b1", 2, 3)
    pool = DescriptorPool()
    pool.AddSerializedFile(TIMESTAMP.serialized_pb)
    pool.Add(protobuf_file(record_of(shop.sent)))
    message_class = GetMessageClass(pool.FindMessageTypeByName("BasketSent"))
    with SchemaRegistryClient({"url": url}) as client:
        read: Any = ProtobufDeserializer(message_class, {"use.deprecated.format": False}, client)
        found = read(codec.encode(event), value_of("baskets"))
        assert (found.basket, [line.quantity for line in found.lines]) == ("b1", [2, 3])
        assert found.sent_at.ToJsonString() == "2026-01-02T03:04:05.678Z"
        assert not found.HasField("note")
        write: Any = ProtobufSerializer(message_class, client, {"use.deprecated.format": False})
        data = write(found, value_of("baskets"))
    assert await codec.known(lambda: codec.decode(shop.sent, data)) == event
    await codec.registry.close()


async def test_avro_goes_to_a_client_of_others(url: str) -> None:
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer

    codec, event = await codec_at(url, "avro"), SHOPS["avro"].event("b1", 2)
    with SchemaRegistryClient({"url": url}) as client:
        read: Any = AvroDeserializer(client)
        found = read(codec.encode(event), value_of("baskets"))
    assert (found["basket"], found["lines"]) == ("b1", [{"sku": "sku-0", "quantity": 2}])
    await codec.registry.close()
