"""Inflates Kafka's compressed batches, within bounds.

Source: https://kafka.apache.org/documentation/#recordbatch.
"""

import zlib

from eventlib.errors import ContractError, LogCorrupt
from eventlib.http.client import TooLarge, inflate
from eventlib.log.base import TopicPartition

_MAGIC = 2
_LENGTH, _OVERHEAD, _MAGIC_AT, _ATTRIBUTES, _BODY = 8, 12, 16, 22, 61
"""Where fields of a batch stand; its length counts what is behind it."""

_GZIP, _CODEC = 1, 7
_OTHERS = {2: "snappy", 3: "lz4", 4: "zstd"}


def end_of(data: bytes, start: int) -> int:
    """Return where a batch ends."""
    return start + _OVERHEAD + int.from_bytes(data[start + _LENGTH : start + _OVERHEAD])


def compression_of(data: bytes, start: int = 0) -> int:
    """Return how a batch is compressed, as Kafka counts: 0 not, 1 gzip; before Kafka 0.11 that stood elsewhere."""
    return data[start + (_ATTRIBUTES if data[start + _MAGIC_AT] == _MAGIC else _MAGIC_AT + 1)] & _CODEC


def uncompressed(place: TopicPartition, batch: bytes, most_bytes: int) -> bytes:
    """Return a compressed batch as it was before that, without its checksum.

    Raises: ContractError for one of more bytes than that, or whose compression is not inflated here; LogCorrupt.
    """
    where = f"{place[0]}/{place[1]} cannot be read at {int.from_bytes(batch[:_LENGTH])}"
    kind = compression_of(batch)
    if batch[_MAGIC_AT] != _MAGIC or kind != _GZIP:
        how = _OTHERS.get(kind, "what only old brokers take")
        raise ContractError(f"{where}: its batch is compressed with {how}; let its producers use gzip, or none")
    try:
        body = inflate(batch[_BODY:], most_bytes)
    except TooLarge as error:
        raise ContractError(
            f"{where}: its batch has {len(batch):,} bytes, and more than {most_bytes:,} when it is inflated; "
            "EVENTLIB_KAFKA_INFLATED_BYTES says how many are taken"
        ) from error
    except zlib.error as error:
        raise LogCorrupt(f"{where}: its batch is damaged: {error}") from error
    head = bytearray(batch[:_BODY])
    head[_LENGTH:_OVERHEAD] = (len(head) + len(body) - _OVERHEAD).to_bytes(4)
    head[_ATTRIBUTES] &= ~_CODEC
    return bytes(head) + body
