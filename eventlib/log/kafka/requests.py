"""Requests that aiokafka lacks, or lacks in the version needed here."""

from collections.abc import Mapping
from struct import Struct
from typing import Any

from aiokafka.errors import IncompatibleBrokerVersion
from aiokafka.protocol.api import RequestStruct, Response, ResponseHeader_v0
from aiokafka.protocol.types import (
    Array,
    Boolean,
    CompactArray,
    CompactBytes,
    CompactString,
    Int8,
    Int16,
    Int32,
    Int64,
    Schema,
    String,
    TaggedFields,
)

_TAGS = ("tags", TaggedFields)
_TEXT = CompactString()

_ACKS_AND_TIMEOUT, _PARTITION = Struct(">hi"), Struct(">i")
_NO_TAGS = b"\0"


def _size(count: int) -> bytes:
    """Encode a length as the compact types do: plus one, as a varint."""
    count += 1
    found = bytearray()
    while count > _SEVEN_BITS:
        found.append(count & _SEVEN_BITS | _MORE)
        count >>= 7
    found.append(count)
    return bytes(found)


_SEVEN_BITS, _MORE = 0x7F, 0x80


class ApiVersionsResponse3(Response):
    """The API versions of a broker; tag 2 holds the cluster's finalized features."""

    API_KEY = 18
    API_VERSION = 3
    SCHEMA = Schema(
        ("error_code", Int16),
        ("api_versions", CompactArray(("api_key", Int16), ("first", Int16), ("last", Int16), _TAGS)),
        ("throttle_time_ms", Int32),
        _TAGS,
    )


class ApiVersionsRequest3(RequestStruct):
    """Requests `ApiVersionsResponse3`."""

    API_KEY = 18
    API_VERSION = 3
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = ApiVersionsResponse3
    SCHEMA = Schema(("software", _TEXT), ("version", _TEXT), _TAGS)

    def parse_response_header(self, read_buffer: Any) -> Any:
        """Read the version 0 header, which this response always has: the client does not know the versions yet."""
        return ResponseHeader_v0.decode(read_buffer)


class ProduceResponse12(Response):
    """The offset of each batch, or its error."""

    API_KEY = 0
    API_VERSION = 12
    SCHEMA = Schema(
        (
            "topics",
            CompactArray(
                ("topic", _TEXT),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("error_code", Int16),
                        ("offset", Int64),
                        ("timestamp", Int64),
                        ("log_start_offset", Int64),
                        ("record_errors", CompactArray(("index", Int32), ("message", _TEXT), _TAGS)),
                        ("message", _TEXT),
                        _TAGS,
                    ),
                ),
                _TAGS,
            ),
        ),
        ("throttle_time_ms", Int32),
        _TAGS,
    )


class ProduceRequest12(RequestStruct):
    """Appends a batch to each of several partitions; if transactional, this adds them to the transaction."""

    API_KEY = 0
    API_VERSION = 12
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = ProduceResponse12
    SCHEMA = Schema(
        ("transactional_id", _TEXT),
        ("required_acks", Int16),
        ("timeout", Int32),
        (
            "topics",
            CompactArray(
                ("topic", _TEXT),
                ("partitions", CompactArray(("partition", Int32), ("records", CompactBytes), _TAGS)),
                _TAGS,
            ),
        ),
        _TAGS,
    )

    def encode(self) -> bytes:
        """Encode by the schema; aiokafka's field-by-field encoding copies each batch four times."""
        topics = self.topics
        parts = [_TEXT.encode(self.transactional_id), _ACKS_AND_TIMEOUT.pack(self.required_acks, self.timeout)]
        parts.append(_size(len(topics)))
        for topic, partitions, _ in topics:
            parts += (_TEXT.encode(topic), _size(len(partitions)))
            for partition, records, _ in partitions:
                parts += (_PARTITION.pack(partition), _size(len(records)), records, _NO_TAGS)
            parts.append(_NO_TAGS)
        parts.append(_NO_TAGS)
        return b"".join(parts)


class EndTxnResponse5(Response):
    """The result of ending a transaction, and the producer's id and epoch for its next one."""

    API_KEY = 26
    API_VERSION = 5
    SCHEMA = Schema(
        ("throttle_time_ms", Int32), ("error_code", Int16), ("producer_id", Int64), ("producer_epoch", Int16), _TAGS
    )


class EndTxnRequest5(RequestStruct):
    """Commits or aborts, and bumps the producer's epoch, which fences off delayed requests of this transaction."""

    API_KEY = 26
    API_VERSION = 5
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = EndTxnResponse5
    SCHEMA = Schema(
        ("transactional_id", _TEXT), ("producer_id", Int64), ("producer_epoch", Int16), ("committed", Boolean), _TAGS
    )


class IncrementalAlterConfigsResponse0(Response):
    """The error code of each resource's changes."""

    API_KEY = 44
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "resources",
            Array(("error_code", Int16), ("error_message", String("utf-8")), ("type", Int8), ("name", String("utf-8"))),
        ),
    )


class IncrementalAlterConfigsRequest0(RequestStruct):
    """Changes some configs of a resource, and leaves the others unchanged."""

    API_KEY = 44
    API_VERSION = 0
    RESPONSE_TYPE = IncrementalAlterConfigsResponse0
    SCHEMA = Schema(
        (
            "resources",
            Array(
                ("type", Int8),
                ("name", String("utf-8")),
                ("configs", Array(("key", String("utf-8")), ("operation", Int8), ("value", String("utf-8")))),
            ),
        ),
        ("validate_only", Boolean),
    )


class _TopicId:
    """Decodes a topic's id as text; 16 bytes on the wire."""

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        """Return the bytes of an id."""
        return value

    @classmethod
    def decode(cls, data: Any) -> str:
        """Read an id."""
        return str(data.read(16).hex())

    @classmethod
    def repr(cls, value: object) -> str:
        """Return it for people."""
        return repr(value)


NO_TOPIC_ID = bytes(16)
"""Asks for a topic by its name."""


class MetadataResponse10(Response):
    """Topics with their ids (KIP-516) and partitions."""

    API_KEY = 3
    API_VERSION = 10
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("brokers", CompactArray(("node", Int32), ("host", _TEXT), ("port", Int32), ("rack", _TEXT), _TAGS)),
        ("cluster_id", _TEXT),
        ("controller", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("name", _TEXT),
                ("topic_id", _TopicId),
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("in_sync", CompactArray(Int32)),
                        ("offline", CompactArray(Int32)),
                        _TAGS,
                    ),
                ),
                ("operations", Int32),
                _TAGS,
            ),
        ),
        ("cluster_operations", Int32),
        _TAGS,
    )


class MetadataRequest10(RequestStruct):
    """Requests `MetadataResponse10`."""

    API_KEY = 3
    API_VERSION = 10
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = MetadataResponse10
    SCHEMA = Schema(
        ("topics", CompactArray(("topic_id", _TopicId), ("name", _TEXT), _TAGS)),
        ("may_create", Boolean),
        ("cluster_operations", Boolean),
        ("topic_operations", Boolean),
        _TAGS,
    )


class DescribeProducersResponse0(Response):
    """The producers that have written to partitions, with where their open transactions begin (-1: none)."""

    API_KEY = 61
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            CompactArray(
                ("name", _TEXT),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("error_code", Int16),
                        ("error_message", _TEXT),
                        (
                            "producers",
                            CompactArray(
                                ("producer_id", Int64),
                                ("epoch", Int32),
                                ("sequence", Int32),
                                ("timestamp", Int64),
                                ("coordinator_epoch", Int32),
                                ("first_offset", Int64),
                                _TAGS,
                            ),
                        ),
                        _TAGS,
                    ),
                ),
                _TAGS,
            ),
        ),
        _TAGS,
    )


class DescribeProducersRequest0(RequestStruct):
    """Requests `DescribeProducersResponse0` of a partition's leader."""

    API_KEY = 61
    API_VERSION = 0
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = DescribeProducersResponse0
    SCHEMA = Schema(("topics", CompactArray(("name", _TEXT), ("partitions", CompactArray(Int32)), _TAGS)), _TAGS)


class ListTransactionsResponse0(Response):
    """The transactions that a broker coordinates."""

    API_KEY = 66
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("unknown_states", CompactArray(_TEXT)),
        ("transactions", CompactArray(("transactional_id", _TEXT), ("producer_id", Int64), ("state", _TEXT), _TAGS)),
        _TAGS,
    )


class ListTransactionsRequest0(RequestStruct):
    """Requests `ListTransactionsResponse0`, of some producers."""

    API_KEY = 66
    API_VERSION = 0
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = ListTransactionsResponse0
    SCHEMA = Schema(("states", CompactArray(_TEXT)), ("producers", CompactArray(Int64)), _TAGS)


class Exactly:
    """A request with a fixed version, in the form that `AIOKafkaConnection.send` accepts."""

    def __init__(self, message: RequestStruct) -> None:
        self._message = message

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> RequestStruct:
        """Return the message. Raises: IncompatibleBrokerVersion when the broker does not support it."""
        message = self._message
        first, last = versions.get(message.API_KEY, (0, -1))
        if not first <= message.API_VERSION <= last:
            raise IncompatibleBrokerVersion(
                f"{type(message).__name__} needs version {message.API_VERSION} of API {message.API_KEY}, and the broker "
                f"has {first} to {last}"
            )
        return message
