"""Keys go to the partitions that Kafka's own clients would choose."""

import json
from pathlib import Path

import pytest

from eventlib import Topic
from eventlib.model.topic import murmur2

# Written by KafkaPartitions.java, which lies beside it: what a broker said to Kafka's own producer.
VECTORS = json.loads((Path(__file__).parents[1] / "golden" / "kafka-partitions.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["key"][:12] or "empty" for vector in VECTORS])
def test_a_key_goes_where_kafkas_own_producer_puts_it(vector: dict[str, int | str | dict[str, int]]) -> None:
    key = bytes.fromhex(str(vector["key"]))
    assert murmur2(key) == vector["murmur2"]
    assert isinstance(vector["partitions"], dict)
    for count, partition in vector["partitions"].items():
        assert Topic("orders", partitions=int(count)).partition_of(key) == partition
