"""Inflates Kafka's compressed batches, within bounds.

Source: https://kafka.apache.org/documentation/#recordbatch.
"""

import zlib

from eventlib.errors import ContractError, LogCorrupt
from eventlib.ground.http_client import TooLarge, inflate
from eventlib.log.base import TopicPartition

_MAGIC = 2
_LENGTH, _OVERHEAD, _MAGIC_AT, _ATTRIBUTES, _BODY = 8, 12, 16, 22, 61
"""The positions of a batch's fields; its length field counts the bytes after itself."""

_GZIP, _CODEC = 1, 7
_OTHERS = {2: "snappy", 3: "lz4", 4: "zstd"}


def end_of(data: bytes, start: int) -> int:
    """Return the position after a batch."""
    return start + _OVERHEAD + int.from_bytes(data[start + _LENGTH : start + _OVERHEAD])


def compression_of(data: bytes, start: int = 0) -> int:
    """Return a batch's compression code: 0 none, 1 gzip; before Kafka 0.11 it was at another position."""
    return data[start + (_ATTRIBUTES if data[start + _MAGIC_AT] == _MAGIC else _MAGIC_AT + 1)] & _CODEC


def uncompressed(topic_partition: TopicPartition, batch: bytes, most_bytes: int) -> bytes:
    """Return a compressed batch inflated, without its checksum.

    Raises: ContractError if it inflates beyond `most_bytes`, or its compression is not supported; LogCorrupt.
    """
    where = f"{topic_partition[0]}/{topic_partition[1]} cannot be read at {int.from_bytes(batch[:_LENGTH])}"
    kind = compression_of(batch)
    if batch[_MAGIC_AT] != _MAGIC or kind != _GZIP:
        how = _OTHERS.get(kind, "a codec of old brokers")
        raise ContractError(f"{where}: its batch is compressed with {how}; configure its producers for gzip or none")
    try:
        body = inflate(batch[_BODY:], most_bytes)
    except TooLarge as error:
        raise ContractError(
            f"{where}: its batch of {len(batch):,} bytes inflates to more than {most_bytes:,}; "
            "EVENTLIB_KAFKA_INFLATED_BYTES sets this limit"
        ) from error
    except zlib.error as error:
        raise LogCorrupt(f"{where}: its batch is damaged: {error}") from error
    head = bytearray(batch[:_BODY])
    head[_LENGTH:_OVERHEAD] = (len(head) + len(body) - _OVERHEAD).to_bytes(4)
    head[_ATTRIBUTES] &= ~_CODEC
    return bytes(head) + body
