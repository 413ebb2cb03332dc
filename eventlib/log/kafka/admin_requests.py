"""Read-only admin requests: permitted operations, replica locations, and the time at the controller quorum."""

from aiokafka.protocol.api import RequestStruct, Response
from aiokafka.protocol.types import (
    Array,
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Int64,
    Schema,
    String,
    TaggedFields,
)

_TEXT = String("utf-8")
_TAGS = ("tags", TaggedFields)


class MetadataResponse8(Response):
    """Brokers, topics and replicas, with this user's permitted operations as bit fields."""

    API_KEY = 3
    API_VERSION = 8
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("brokers", Array(("node", Int32), ("host", _TEXT), ("port", Int32), ("rack", _TEXT))),
        ("cluster_id", _TEXT),
        ("controller", Int32),
        (
            "topics",
            Array(
                ("error_code", Int16),
                ("name", _TEXT),
                ("is_internal", Boolean),
                (
                    "partitions",
                    Array(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", Array(Int32)),
                        ("in_sync", Array(Int32)),
                        ("offline", Array(Int32)),
                    ),
                ),
                ("operations", Int32),
            ),
        ),
        ("operations", Int32),
    )


class MetadataRequest8(RequestStruct):
    """Requests `MetadataResponse8`."""

    API_KEY = 3
    API_VERSION = 8
    RESPONSE_TYPE = MetadataResponse8
    SCHEMA = Schema(
        ("topics", Array(_TEXT)),
        ("create", Boolean),
        ("cluster_operations", Boolean),
        ("topic_operations", Boolean),
    )


_REPLICAS = CompactArray(
    ("replica", Int32), ("end", Int64), ("fetched_at_ms", Int64), ("caught_up_at_ms", Int64), _TAGS
)


class DescribeQuorumResponse1(Response):
    """The leader of the controller quorum, and each replica's progress by the leader's clock (KIP-836)."""

    API_KEY = 55
    API_VERSION = 1
    SCHEMA = Schema(
        ("error_code", Int16),
        (
            "topics",
            CompactArray(
                ("topic", CompactString()),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("error_code", Int16),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("high_watermark", Int64),
                        ("voters", _REPLICAS),
                        ("observers", _REPLICAS),
                        _TAGS,
                    ),
                ),
                _TAGS,
            ),
        ),
        _TAGS,
    )


class DescribeQuorumRequest1(RequestStruct):
    """Requests `DescribeQuorumResponse1`."""

    API_KEY = 55
    API_VERSION = 1
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = DescribeQuorumResponse1
    SCHEMA = Schema(
        (
            "topics",
            CompactArray(("topic", CompactString()), ("partitions", CompactArray(("partition", Int32), _TAGS)), _TAGS),
        ),
        _TAGS,
    )
