"""A client that nobody here wrote, confluent-kafka-python's, with its serializers, against the registry's server."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf import descriptor_pool, message_factory

from eventlib.identity import Role
from eventlib.registry.parsing import SchemaType, parse
from tests.contract.registry_servers import identified, listening_registry, value_of

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient


ORDER = {"order_id": "1", "amount_cents": 250}
AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "order_id", "type": "string"}, {"name": "amount_cents", "type": "long"}],
    }
)
JSON = json.dumps(
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Order",
        "type": "object",
        "properties": {"order_id": {"type": "string"}, "amount_cents": {"type": "integer"}},
        "required": ["order_id"],
        "additionalProperties": False,
    }
)
PROTO = """
syntax = "proto3";
package shop;
import "money.proto";
message Other {}
message Order { string order_id = 1; Money paid = 2; message Line { string sku = 1; } repeated Line lines = 3; }
"""
MONEY = 'syntax = "proto3"; package shop; message Money { int64 amount_cents = 1; }'


@pytest.fixture
def client(url: str) -> "Iterator[SchemaRegistryClient]":
    from confluent_kafka.schema_registry import SchemaRegistryClient

    with SchemaRegistryClient({"url": url, "max.retries": 0}) as opened:
        yield opened


def test_the_client_manages_schemas(client: "SchemaRegistryClient") -> None:
    from confluent_kafka.schema_registry import Schema
    from confluent_kafka.schema_registry.schema_registry_client import ConfigCompatibilityLevel, ServerConfig

    schema = Schema(AVRO, "AVRO")
    assert client.register_schema("orders-value", schema) == 1
    assert json.loads(client.get_schema(1).schema_str or "") == json.loads(AVRO)
    assert client.get_subjects() == ["orders-value"]
    assert client.get_versions("orders-value") == [1]
    assert client.lookup_schema("orders-value", schema).version == 1
    assert client.get_latest_version("orders-value").schema_id == 1
    assert client.get_version("orders-value", 1).schema_id == 1
    assert client.get_schema_types() == ["AVRO", "JSON", "PROTOBUF"]
    assert client.get_subjects_by_schema_id(1) == ["orders-value"]
    assert [(each.subject, each.version) for each in client.get_schema_versions(1)] == [("orders-value", 1)]
    assert client.get_contexts() == ["."]
    wider = Schema(AVRO.replace("long", "double"), "AVRO")
    assert not client.test_compatibility("orders-value", wider)
    client.set_compatibility("orders-value", "BACKWARD")
    assert client.get_compatibility("orders-value") == "BACKWARD"
    assert client.test_compatibility_all_versions("orders-value", wider)
    full = ServerConfig(compatibility=ConfigCompatibilityLevel.FULL)
    client.set_config("orders-value", full)
    assert client.get_config("orders-value").compatibility_level == "FULL"
    assert client.delete_version("orders-value", 1) == 1
    assert client.delete_version("orders-value", 1, permanent=True) == 1
    assert client.get_subjects() == []


def test_the_client_is_told_why(client: "SchemaRegistryClient") -> None:
    from confluent_kafka.schema_registry import Schema
    from confluent_kafka.schema_registry.error import SchemaRegistryError

    client.register_schema("x", Schema(AVRO, "AVRO"))
    with pytest.raises(SchemaRegistryError) as refused:
        client.register_schema("x", Schema(AVRO.replace("long", "string"), "AVRO"))
    assert (refused.value.http_status_code, refused.value.error_code) == (409, 409)
    assert "TYPE_MISMATCH at /fields/1/type" in refused.value.error_message
    with pytest.raises(SchemaRegistryError) as unknown:
        client.get_schema(7)
    assert (unknown.value.http_status_code, unknown.value.error_code) == (404, 40403)
    with pytest.raises(SchemaRegistryError) as invalid:
        client.register_schema("y", Schema("{", "AVRO"))
    assert invalid.value.error_code == 42201


def test_the_client_says_who_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.error import SchemaRegistryError

    variables, tokens = identified(tmp_path, ann=Role.OPERATOR)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with listening_registry() as url:
        with SchemaRegistryClient({"url": url}) as client, pytest.raises(SchemaRegistryError) as refused:
            client.get_subjects()
        assert refused.value.error_code == 401
        with SchemaRegistryClient({"url": url, "basic.auth.user.info": f"ann:{tokens['ann']}"}) as client:
            assert client.get_subjects() == []


def test_avro_through_its_serializer(client: "SchemaRegistryClient", url: str) -> None:
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer

    data = AvroSerializer(client, AVRO)(ORDER, value_of("orders"))
    assert data is not None
    assert data[:5] == bytes([0, 0, 0, 0, 1])
    newer = json.loads(AVRO)
    newer["fields"].append({"name": "currency", "type": "string", "default": "EUR"})
    with SchemaRegistryClient({"url": url}) as other:
        assert AvroDeserializer(other)(data, value_of("orders")) == ORDER
        AvroSerializer(client, json.dumps(newer))({**ORDER, "currency": "USD"}, value_of("orders"))
        assert AvroDeserializer(other, json.dumps(newer))(data, value_of("orders")) == {**ORDER, "currency": "EUR"}


def test_avro_with_a_reference(client: "SchemaRegistryClient") -> None:
    from confluent_kafka.schema_registry import Schema, SchemaReference
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer

    money = {"type": "record", "name": "Money", "fields": [{"name": "amount_cents", "type": "long"}]}
    paid = {"type": "record", "name": "Paid", "fields": [{"name": "money", "type": "Money"}]}
    client.register_schema("money", Schema(json.dumps(money), "AVRO"))
    schema = Schema(json.dumps(paid), "AVRO", [SchemaReference("Money", "money", 1)])
    data = AvroSerializer(client, schema)({"money": {"amount_cents": 5}}, value_of("orders"))
    assert AvroDeserializer(client)(data, value_of("orders")) == {"money": {"amount_cents": 5}}
    assert client.get_referenced_by("money", 1) == [2]


def test_json_through_its_serializer(client: "SchemaRegistryClient") -> None:
    from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer

    data = JSONSerializer(JSON, client)(ORDER, value_of("orders"))
    assert JSONDeserializer(JSON, schema_registry_client=client)(data, value_of("orders")) == ORDER
    assert client.get_schema(1).schema_type == "JSON"


def _messages() -> tuple[Any, Any]:
    """Return the classes Order and Money, from files that protoc has compiled."""
    files = parse(SchemaType.PROTOBUF, PROTO, {"money.proto": MONEY}).model
    pool = descriptor_pool.DescriptorPool()
    for each in (*files.imports(), files.file()):
        pool.Add(each)
    order, money = (
        message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.{each}")) for each in ("Order", "Money")
    )
    return order, money


def test_protobuf_through_its_serializer(client: "SchemaRegistryClient") -> None:
    """It sends the base64 of a descriptor; what is kept, and told to other clients, is text that says the same."""

    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer

    order, money = _messages()
    written = order(order_id="1", paid=money(amount_cents=250), lines=[order.Line(sku="A")])
    data = ProtobufSerializer(order, client, {"use.deprecated.format": False})(written, value_of("orders"))
    read = ProtobufDeserializer(order, {"use.deprecated.format": False}, client)(data, value_of("orders"))
    assert read == written
    told = client.get_latest_version("orders-value")
    assert (told.schema.schema_type, [each.name for each in told.schema.references or []]) == (
        "PROTOBUF",
        ["money.proto"],
    )
    again = ProtobufSerializer(order, client, {"use.deprecated.format": False, "auto.register.schemas": False})
    assert again(written, value_of("orders")) == data
    text = told.schema.schema_str or ""
    assert parse(SchemaType.PROTOBUF, text, {"money.proto": MONEY}).model.main.endswith(b"proto3")
    assert "message Order {" in text
