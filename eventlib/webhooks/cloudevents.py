"""Events as CloudEvents 1.0 over HTTP: in structured, binary and batched content mode, out of an event's record and back.

Source: the CloudEvents specification 1.0.2, its JSON event format, and its HTTP protocol binding.
"""

import json
import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import quote, unquote

from eventlib.errors import ContractError
from eventlib.ground.strict_json import JsonRefused, decode_json
from eventlib.json_form import json_of
from eventlib.model.event import Event
from eventlib.model.evolution import version_of
from eventlib.model.personal import masked
from eventlib.model.record import Record, key_text
from eventlib.values import from_ms

ContentMode = Literal["structured", "binary", "batch"]

JSON = "application/json"
_ONE, _MANY = "application/cloudevents+json", "application/cloudevents-batch+json"
_REQUIRED = ("id", "source", "specversion", "type")
_NAME = re.compile(r"[a-z0-9]+")
_KEPT = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')
"""What a header's value has as it is; anything else is percent-encoded (HTTP binding, 3.1.3.2)."""


@dataclass(frozen=True, slots=True)
class CloudEvent:
    """Attributes by their names, and the data: what JSON has."""

    attributes: Mapping[str, Any]
    data: Any = None

    @property
    def id(self) -> str:
        """What identifies it among those of its source."""
        return str(self.attributes["id"])

    @property
    def type(self) -> str:
        """What has happened."""
        return str(self.attributes["type"])

    @property
    def source(self) -> str:
        """In what context."""
        return str(self.attributes["source"])


@dataclass(frozen=True, slots=True)
class Content:
    """A request's body, and the headers that belong to it."""

    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


def cloud_event(record: Record, event: Event, application: str, *, personal: bool) -> CloudEvent:
    """Return an event of the log as a CloudEvent: the same whenever it is sent, unless a person is erased meanwhile.

    Personal fields are masked unless `personal`.
    """
    event_type = type(event).__name__
    attributes = {
        "specversion": "1.0",
        "id": record.event_id,
        "source": f"/{application}/{record.source or record.topic}",
        "type": event_type,
        "time": f"{from_ms(record.timestamp_ms):%Y-%m-%dT%H:%M:%S.%fZ}",
        "datacontenttype": JSON,
        "dataschema": f"urn:eventlib:{application}:{event_type}:{version_of(type(event))}",
        "correlationid": record.correlation_id or record.event_id,
    }
    if record.key is not None:
        attributes |= {"subject": key_text(record), "partitionkey": key_text(record)}
    if record.causation_id is not None:
        attributes["causationid"] = record.causation_id
    if record.traceparent is not None:
        attributes["traceparent"] = record.traceparent
    shown = event if personal else masked(event)
    return CloudEvent({name: value for name, value in attributes.items() if value}, json_of(shown))


def content_of(events: Sequence[CloudEvent], mode: ContentMode) -> Content:
    """Return the request that carries events: one, or with `batch` any number."""
    if mode == "batch":
        return Content(_json([_object(each) for each in events]), {"content-type": f"{_MANY}; charset=UTF-8"})
    (event,) = events
    if mode == "structured":
        return Content(_json(_object(event)), {"content-type": f"{_ONE}; charset=UTF-8"})
    headers = {f"ce-{name}": quote(str(value), _KEPT) for name, value in event.attributes.items()}
    return Content(_json(event.data), {**headers, "content-type": headers.pop("ce-datacontenttype", JSON)})


def events_of(content: Content) -> list[CloudEvent]:
    """Return the events that a request carries; its headers' names are in lower case. Raises: ContractError, naming the attribute."""
    kind = content.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == _MANY:
        found = _parsed(content.body)
        if not isinstance(found, list):
            raise ContractError(f"a batch of CloudEvents is a JSON array, and this is a JSON {type(found).__name__}")
        return [_structured(each) for each in found]
    if kind == _ONE:
        return [_structured(_parsed(content.body))]
    if "ce-specversion" in content.headers:
        return [_binary(content, kind)]
    raise ContractError(
        f"content-type {kind or 'of no kind'!r}: send {_ONE}, {_MANY}, or the attributes of one event as headers ce-…"
    )


def _object(event: CloudEvent) -> dict[str, Any]:
    return {**event.attributes, "data": event.data}


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _parsed(body: bytes) -> Any:
    try:
        return decode_json(body.decode())
    except (ValueError, JsonRefused) as error:
        raise ContractError(f"the body is not JSON: {error!s:.200}") from error


def _structured(found: Any) -> CloudEvent:
    if not isinstance(found, dict):
        raise ContractError(f"a CloudEvent is a JSON object, and this is a JSON {type(found).__name__}")
    attributes = {name: value for name, value in found.items() if name not in {"data", "data_base64"}}
    _check(attributes)
    if "data_base64" not in found:
        return CloudEvent(attributes, found.get("data"))
    try:
        return CloudEvent(attributes, _parsed(b64decode(found["data_base64"], validate=True)))
    except (TypeError, ValueError) as error:
        raise ContractError("data_base64 is not base64") from error


def _binary(content: Content, kind: str) -> CloudEvent:
    attributes = {
        name.removeprefix("ce-"): unquote(value) for name, value in content.headers.items() if name.startswith("ce-")
    }
    if kind:
        attributes["datacontenttype"] = kind
    _check(attributes)
    return CloudEvent(attributes, _parsed(content.body))


def _check(attributes: Mapping[str, Any]) -> None:
    for name in _REQUIRED:
        if not isinstance(attributes.get(name), str) or not attributes[name]:
            raise ContractError(f"attribute {name} is missing, or is no text: each CloudEvent has it")
    if attributes["specversion"] != "1.0":
        raise ContractError(f"specversion {attributes['specversion']!r:.20}: only 1.0 is read here")
    for name, value in attributes.items():
        if not _NAME.fullmatch(name):
            raise ContractError(f"attribute {name!r:.40}: names are made of lower-case letters and digits")
        if not isinstance(value, str | int | bool):
            raise ContractError(
                f"attribute {name} is a JSON {type(value).__name__}: texts, whole numbers and booleans are"
            )
    kind = str(attributes.get("datacontenttype", JSON)).partition(";")[0].strip().lower()
    if kind != JSON and not kind.endswith("+json"):
        raise ContractError(f"datacontenttype {kind!r:.60}: data is read as JSON here")
