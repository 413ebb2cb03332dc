"""Requests that are written in one go are what their schemas say."""

from typing import Any

import pytest
from aiokafka.errors import IncompatibleBrokerVersion
from aiokafka.protocol.struct import Struct

from eventlib.log.kafka.admin import Operation
from eventlib.log.kafka.requests import Exactly, ProduceRequest12


@pytest.mark.parametrize("transactional_id", [None, "shop~1.a", "größe"])
@pytest.mark.parametrize("sizes", [[], [0], [1, 126, 127, 128], [16_382, 16_383, 16_384], [2_097_150, 2_097_151]])
def test_a_produce_request_is_what_its_schema_says(transactional_id: str | None, sizes: list[int]) -> None:
    partitions: list[Any] = [(number, bytes(size), {}) for number, size in enumerate(sizes)]
    topics: list[Any] = [("a", partitions, {}), ("prefix.b", [(2**31 - 1, b"x", {})], {})] if sizes else []
    request = ProduceRequest12(transactional_id, -1, 10_000, topics, {})
    assert request.encode() == Struct.encode(request)


def test_many_partitions_are_counted_right() -> None:
    partitions: list[Any] = [(number, b"%d" % number, {}) for number in range(300)]
    request = ProduceRequest12("x", 1, 2**31 - 1, [(f"t{n}", partitions, {}) for n in range(200)], {})
    assert request.encode() == Struct.encode(request)


def test_a_version_that_the_broker_does_not_have_is_refused_and_no_other_is_sent_in_its_place() -> None:
    request = ProduceRequest12("x", 1, 1, [], {})
    for versions in ({0: (0, 12)}, {0: (12, 13)}):
        assert Exactly(request).prepare(versions) is request
    for versions in ({}, {0: (0, 11)}, {0: (13, 14)}):
        with pytest.raises(IncompatibleBrokerVersion, match="ProduceRequest12 needs version 12 of API 0"):
            Exactly(request).prepare(versions)


def test_acl_operations_have_the_codes_of_the_protocol_and_are_found_among_the_bits_of_a_response() -> None:
    # https://kafka.apache.org/documentation/#operations_resources_and_protocols, as org.apache.kafka.common.acl.AclOperation
    assert {each.name: each.value for each in Operation} == {
        "READ": 3,
        "WRITE": 4,
        "CREATE": 5,
        "DESCRIBE": 8,
        "DESCRIBE_CONFIGS": 10,
        "ALTER_CONFIGS": 11,
    }
    assert [each for each in Operation if each.among(1 << 4 | 1 << 11)] == [Operation.WRITE, Operation.ALTER_CONFIGS]
