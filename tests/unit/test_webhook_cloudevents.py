"""CloudEvents are those of the specification: what either side writes, the other reads."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http_event, to_binary_event, to_structured_event
from cloudevents.core.v1.event import CloudEvent as TheirEvent

from eventlib import ContractError
from eventlib.webhooks.cloudevents import CloudEvent, Content, ContentMode, content_of, events_of
from eventlib.webhooks.endpoint import is_public

OURS = CloudEvent(
    {
        "specversion": "1.0",
        "id": "1",
        "source": "/shop/order",
        "type": "OrderPlaced",
        "subject": 'Zoë "50 %" 🎉',
        "datacontenttype": "application/json",
        "time": "2026-11-26T04:00:00.123000Z",
    },
    {"order_id": "é", "lines": [1, None, True]},
)


@pytest.mark.parametrize("mode", ["structured", "binary"])
def test_the_sdk_reads_what_is_sent(mode: ContentMode) -> None:
    content = content_of([OURS], mode)
    theirs: Any = from_http_event(HTTPMessage(dict(content.headers), content.body))
    assert theirs.get_subject() == OURS.attributes["subject"]
    assert theirs.get_time().isoformat() == "2026-11-26T04:00:00.123000+00:00"
    assert theirs.get_data() == OURS.data
    assert events_of(content) == [OURS]


@pytest.mark.parametrize("write", [to_structured_event, to_binary_event])
def test_what_the_sdk_sends_is_read(write: Any) -> None:
    at = datetime(2026, 11, 26, tzinfo=UTC)
    theirs = TheirEvent({**OURS.attributes, "time": at, "source": "/theirs", "extra": "ü"}, OURS.data)
    message = write(theirs)
    (found,) = events_of(Content(message.body, {name.lower(): value for name, value in message.headers.items()}))
    assert (found.id, found.source, found.type, found.data) == ("1", "/theirs", "OrderPlaced", OURS.data)
    assert (found.attributes["extra"], found.attributes["subject"]) == ("ü", OURS.attributes["subject"])


def test_a_batch_is_read_as_it_was_written() -> None:
    assert events_of(content_of([OURS, OURS], "batch")) == [OURS, OURS]
    assert events_of(content_of([], "batch")) == []


def structured(**changes: Any) -> Content:
    event = {"specversion": "1.0", "id": "1", "source": "/s", "type": "T", **changes}
    return Content(json.dumps(event).encode(), {"content-type": "application/cloudevents+json"})


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (structured(id=""), "attribute id is missing"),
        (structured(source=None), "attribute source is missing"),
        (structured(specversion="0.3"), "specversion '0.3': only 1.0"),
        (structured(Extra="x"), "attribute 'Extra': names are made of lower-case letters"),
        (structured(extra={"a": 1}), "attribute extra is a JSON dict"),
        (structured(datacontenttype="text/xml"), "datacontenttype 'text/xml': data is read as JSON"),
        (structured(data_base64="?"), "data_base64 is not base64"),
        (structured(data_base64=7), "data_base64 is not base64"),
        (
            Content(b'{"id": "1", "id": "2"}', {"content-type": "application/cloudevents+json"}),
            "field 'id' is there twice",
        ),
        (Content(b"[1]", {"content-type": "application/cloudevents-batch+json"}), "a CloudEvent is a JSON object"),
        (Content(b"{}", {"content-type": "application/cloudevents-batch+json"}), "is a JSON array"),
        (Content(b"{}", {"content-type": "application/json"}), "send application/cloudevents"),
        (
            Content(b"\xff", {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/", "ce-type": "T"}),
            "the body is not JSON",
        ),
        (Content(b"", {}), "content-type 'of no kind'"),
    ],
)
def test_what_is_no_cloudevent_is_a_sentence(content: Content, sentence: str) -> None:
    with pytest.raises(ContractError, match=sentence):
        events_of(content)


def test_data_may_be_base64() -> None:
    (found,) = events_of(structured(data_base64="eyJhIjogMX0="))
    assert found.data == {"a": 1}


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.215.14", True),
        ("2606:2800:21f:cb07:6820:80da:af6b:8b2c", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("169.254.169.254", False),  # where clouds keep credentials
        ("100.64.0.1", False),
        ("0.0.0.0", False),  # noqa: S104  an address to refuse
        ("224.0.0.1", False),
        ("::1", False),
        ("fe80::1%eth0", False),
        ("fd00::1", False),
        ("::ffff:10.0.0.1", False),
        ("::ffff:93.184.215.14", True),
        ("64:ff9b::a9fe:a9fe", False),
        ("64:ff9b::5db8:d70e", True),  # a public address, from a network without IPv4
        ("64:ff9b:1::a9fe:a9fe", False),  # NAT64 of a network of its own
        ("64:ff9b:1:a9fe:a9:fe00::", False),
        ("64:ff9b::", False),
        ("2002:0a00:0001::", False),
        ("2002:5db8:d70e::1", False),  # a tunnel, wherever it ends
        ("2001:0:4136:e378:8000:63bf:3fff:fdd2", False),
        ("fec0::1", False),  # site-local
        ("::ffff:0:a9fe:a9fe", False),  # IPv4-translated
        ("::a9fe:a9fe", False),  # IPv4-compatible
        ("::", False),
        ("::ffff:0.0.0.0", False),
        ("::ffff:0:0:0", False),
        ("100::1", False),
        ("2001:db8::1", False),
        ("3fff::1", False),
        ("5f00::1", False),
        ("4000::1", False),  # not assigned
        ("ff02::1", False),
        ("ff0e::1", False),
        ("0.1.2.3", False),
        ("192.0.0.8", False),
        ("192.0.2.1", False),
        ("192.88.99.1", False),
        ("198.18.0.1", False),
        ("203.0.113.9", False),
        ("239.255.255.250", False),
        ("240.0.0.1", False),
        ("255.255.255.255", False),
        ("2001:4860:4860::8888", True),
        ("2a00:1450:4001::1", True),
        ("192.0.1.1", True),
    ],
)
def test_addresses_that_are_not_public_are_known(address: str, public: bool) -> None:
    assert is_public(address) is public
