"""A choreography as an AsyncAPI document: who sends and receives which events on which topics.

Source: AsyncAPI 3.0.0; its Kafka bindings 0.5.0; CloudEvents 1.0, Kafka binding.
"""

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from eventlib.codec.formats import format_of
from eventlib.codec.json.format import json_schema
from eventlib.codec.registry import PROTOBUF
from eventlib.errors import WiringError
from eventlib.model.choreography import Choreography
from eventlib.model.event import Event, contract_of
from eventlib.model.schema.derive import record_of
from eventlib.model.schema.types import Record, schema_json
from eventlib.model.service import Service
from eventlib.model.topic import Topic

_CONTENT = {
    "avro": "application/vnd.apache.avro",
    "json": "application/json",
    "protobuf": "application/vnd.google.protobuf",
}
_BINDING = "0.5.0"
_TEXT = {"type": "string"}
_HEADERS = {
    "ce_specversion": {"type": "string", "const": "1.0"},
    "ce_id": {"type": "string", "description": "The event's id, unique on the log; a request may stand there twice."},
    "ce_type": {"type": "string", "description": "The event's name."},
    "ce_source": {"type": "string", "description": "Who said it: service/decider."},
    "ce_subject": {"type": "string", "description": "The decider's key."},
    "ce_sequence": {"type": "string", "description": "Counts what was said under the key, from 1."},
    "ce_correlationid": {"type": "string", "description": "Shared by all that follows from one request."},
    "ce_causationid": {"type": "string", "description": "The id of the input that led to it."},
    "traceparent": {"type": "string", "description": "W3C Trace Context."},
}


def asyncapi(choreography: Choreography) -> dict[str, Any]:
    """Return a choreography as AsyncAPI 3.0. Its version is a fingerprint of all that it says.

    Raises: WiringError for two topics whose names are one in the document, where a '.' is written '_'.
    """
    topics = {contract_of(event).topic.name: contract_of(event).topic for event in choreography.events}
    if len({_id(name) for name in topics}) < len(topics):
        raise WiringError(f"two of the topics are one when '.' is written '_': {', '.join(topics)}; rename one")
    found: dict[str, Any] = {
        "defaultContentType": "application/vnd.apache.avro",
        "channels": {_id(name): _channel(topic, choreography.events) for name, topic in topics.items()},
        "operations": {
            name: operation for service in choreography.services for name, operation in _operations(service).items()
        },
        "components": {"messages": {contract_of(event).type: _message(event) for event in choreography.events}},
    }
    fingerprint = hashlib.blake2b(json.dumps(found).encode(), digest_size=6).hexdigest()
    return {"asyncapi": "3.0.0", "info": {"title": choreography.name, "version": fingerprint}, **found}


def _channel(topic: Topic, events: Iterable[type[Event]]) -> dict[str, Any]:
    here = [contract_of(event).type for event in events if contract_of(event).topic.name == topic.name]
    retention = -1 if topic.retention is None else round(topic.retention.total_seconds() * 1_000)
    return {
        "address": topic.name,
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in here},
        "bindings": {
            "kafka": {
                "topic": topic.name,
                "partitions": topic.partitions,
                "topicConfiguration": {
                    "cleanup.policy": ["compact" if topic.compacted else "delete"],
                    "retention.ms": retention,
                    "max.message.bytes": topic.max_event_bytes,
                },
                "bindingVersion": _BINDING,
            }
        },
    }


def _operations(service: Service) -> dict[str, Any]:
    found = dict[str, Any]()
    for action, verb, events in (("receive", "handles", service.handles), ("send", "says", service.emits)):
        for topic in dict.fromkeys(contract_of(event).topic.name for event in events):
            names = [contract_of(event).type for event in events if contract_of(event).topic.name == topic]
            found[f"{service.name}_{action}_{_id(topic)}"] = {
                "action": action,
                "title": f"{service.name} {verb} {', '.join(names)}",
                "channel": {"$ref": f"#/channels/{_id(topic)}"},
                "messages": [{"$ref": f"#/channels/{_id(topic)}/messages/{name}"} for name in names],
                "bindings": {"kafka": {"groupId": {**_TEXT, "const": service.name}, "bindingVersion": _BINDING}},
            }
    return found


def _message(event: type[Event]) -> dict[str, Any]:
    contract, record = contract_of(event), record_of(event)
    made: dict[str, Any] = {"name": contract.type, "title": contract.type}
    if record.doc:
        made["summary"] = record.doc
    if contract.external is not None:
        return made | {
            "contentType": "application/octet-stream",
            "description": "Others write it, in a form of theirs.",
        }
    key = {} if contract.key is None else {"key": {**_TEXT, "description": contract.key}}
    return made | {
        "contentType": _CONTENT[contract.topic.format],
        "headers": {"type": "object", "properties": _HEADERS, "required": ["ce_specversion", "ce_id", "ce_type"]},
        "correlationId": {"location": "$message.header#/ce_correlationid"},
        "payload": _payload(record, contract.topic.format),
        "bindings": {
            "kafka": {
                **key,
                "schemaIdLocation": "payload",
                "schemaIdPayloadEncoding": "confluent",
                "bindingVersion": _BINDING,
            }
        },
    }


def _payload(record: Record, form: str) -> dict[str, Any]:
    match form:
        case "json":
            return {"schemaFormat": "application/schema+json;version=draft-07", "schema": json_schema(record)}
        case "protobuf":
            text = format_of(PROTOBUF).schema(record).text
            return {"schemaFormat": "application/vnd.google.protobuf;version=3", "schema": text}
        case _:
            return {"schemaFormat": "application/vnd.apache.avro;version=1.9.0", "schema": schema_json(record)}


def _id(topic: str) -> str:
    return topic.replace(".", "_")
