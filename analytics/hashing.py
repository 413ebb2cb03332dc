"""Numbers for texts and keys, a column at a time."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eventlib.model.topic import Topic

Hashes = NDArray[np.uint64]
Numbers = NDArray[np.int64]

_M, _SEED, _SHIFT = np.uint64(0xC6A4A7935BD1E995), np.uint64(0x9AE16A3B2F90404F), np.uint64(47)
_M32, _SEED32 = np.uint32(0x5BD1E995), np.uint32(0x9747B28C)


def hashes(texts: pa.Array) -> Hashes:
    """Return a 64-bit hash of each text, the same in every process; 0 for NULL, and for nothing else.

    Source: the steps of MurmurHash64A, but for the end of a text, which zeros fill up.
    """
    found = np.zeros(len(texts), np.uint64)
    for length, rows, words in _by_length(texts, np.dtype("<u8")):
        mixed = np.full(len(rows), (int(_SEED) ^ length * int(_M)) & 0xFFFFFFFFFFFFFFFF, np.uint64)
        for word in words:
            part = word * _M
            part ^= part >> _SHIFT
            part *= _M
            mixed ^= part
            mixed *= _M
        mixed ^= mixed >> _SHIFT
        mixed *= _M
        mixed ^= mixed >> _SHIFT
        found[rows] = np.maximum(mixed, np.uint64(1))
    return found


def partitions_of(topic: Topic, keys: pa.Array) -> Numbers:
    """Return the partition of each key, as `Topic.partition_of` does; NULL counts as an empty key."""
    keys = keys.cast(pa.binary()).fill_null(b"")
    if topic.partitioner == "murmur2":
        return (_murmur2(keys) & np.uint32(0x7FFFFFFF)).astype(np.int64) % topic.partitions
    coded = keys.dictionary_encode()
    places = [topic.partition_of(key) for key in coded.dictionary.to_pylist()]
    return _taken(places, coded.indices)


def _murmur2(texts: pa.Array) -> NDArray[np.uint32]:
    """Return what `eventlib.model.topic.murmur2` does of each text."""
    found = np.zeros(len(texts), np.uint32)
    for length, rows, words in _by_length(texts, np.dtype("<u4")):
        mixed = np.full(len(rows), int(_SEED32) ^ length, np.uint32)
        whole = length // 4
        for word in words[:whole]:
            part = word * _M32
            part ^= part >> np.uint32(24)
            part *= _M32
            mixed *= _M32
            mixed ^= part
        for word in words[whole:]:
            mixed ^= word
            mixed *= _M32
        mixed ^= mixed >> np.uint32(13)
        mixed *= _M32
        found[rows] = mixed ^ mixed >> np.uint32(15)
    return found


def _by_length(texts: pa.Array, word: "np.dtype[Any]") -> Iterator[tuple[int, NDArray[np.int64], NDArray[Any]]]:
    """Yield the texts of each length: the length in bytes, their rows, and their words, of which zeros fill up the last."""
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int32, len(texts) + 1, texts.offset * 4)
    content = np.frombuffer(data or b"", np.uint8)
    lengths = np.diff(ends)
    if texts.null_count:
        lengths = np.where(texts.is_valid().to_numpy(zero_copy_only=False), lengths, -1)
    for length in np.unique(lengths[lengths >= 0]).tolist():
        rows = np.flatnonzero(lengths == length)
        padded = np.zeros((len(rows), -(-length // word.itemsize) * word.itemsize), np.uint8)
        if length:
            padded[:, :length] = content[ends[rows][:, np.newaxis] + np.arange(length)]
        yield length, rows, np.ascontiguousarray(padded.view(word).T)


def numbers_of(column: pa.Array, number: Callable[[str], int], missing: int = -1) -> Numbers:
    """Return what a function says of each value of a column with few values; `missing` for NULL."""
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    numbers = [*map(number, coded.dictionary.to_pylist()), missing]
    return _taken(numbers, coded.indices.fill_null(-1))  # which takes from the end


def _taken(numbers: Sequence[int], indices: pa.Array) -> Numbers:
    found: Numbers = np.array(numbers, np.int64)[indices.to_numpy()]
    return found
