"""Keys go to the partitions that Kafka's own clients would choose."""

import pytest

from eventlib import Topic
from eventlib.topic import murmur2


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        ("abc", 479470107),
    ],
)
def test_murmur2_is_that_of_the_java_client(key: str, signed: int) -> None:
    assert murmur2(key.encode()) == signed & 0xFFFFFFFF


def test_a_keys_partition_is_its_positive_hash_modulo_the_count() -> None:
    topic = Topic("orders", partitions=8)
    assert topic.partition_of(b"foobar") == (-790332482 & 0x7FFFFFFF) % 8
