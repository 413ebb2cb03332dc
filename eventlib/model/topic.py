"""Topics, and which partition of a topic a key belongs to."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache

from eventlib.errors import ContractError, WiringError
from eventlib.ground.ends import as_error

DEFAULT_PARTITIONS = 8
DEFAULT_MAX_EVENT_BYTES = 1_000_000
FORMATS = ("avro", "json", "protobuf")
_KAFKAS = "murmur2"


@dataclass(frozen=True, slots=True)
class Topic:
    """A named, partitioned, append-only sequence of records.

    `retention` is how long a record is kept (default: without limit), `retention_bytes` how much of a partition is kept.
    `compacted` keeps the newest record of each key instead. `latest` adds the compacted topic
    `<name>.latest` with the newest event of each key, written in the same transaction.
    `partitioner` names the function from key to partition; `max_event_bytes` is the largest value accepted.
    `format` is what its events are written in: `avro`, `json` (with a JSON Schema) or `protobuf`.
    """

    name: str
    partitions: int = DEFAULT_PARTITIONS
    retention: timedelta | None = None
    retention_bytes: int | None = None
    compacted: bool = False
    latest: bool = False
    partitioner: str = _KAFKAS
    max_event_bytes: int = DEFAULT_MAX_EVENT_BYTES
    format: str = field(default="avro", compare=False)  # known to the code alone: a log keeps bytes

    def __post_init__(self) -> None:
        """Refuse what no log could hold."""
        if not self.name or set(self.name) - _NAME_CHARACTERS:
            raise WiringError(f"topic {self.name!r}: a name is made of letters, digits, '.', '_' and '-'")
        if self.partitions < 1:
            raise WiringError(f"topic {self.name!r}: partitions={self.partitions}; give at least 1")
        if self.partitioner not in PARTITIONERS:
            known = ", ".join(sorted(PARTITIONERS))
            raise WiringError(f"topic {self.name!r}: unknown partitioner {self.partitioner!r}; known are {known}")
        if self.format not in FORMATS:
            raise WiringError(f"topic {self.name!r}: unknown format {self.format!r}; known are {', '.join(FORMATS)}")
        if self.latest and self.compacted:
            raise WiringError(f"topic {self.name!r}: latest=True keeps a compacted copy already; drop compacted=True")

    def partition_of(self, key: bytes) -> int:
        """Return the partition of a key: the same on every log, and in every client that hashes as Kafka's do.

        Raises: ContractError when the partitioner of a project refuses the key, or names a partition that there is not.
        """
        if self.partitioner == _KAFKAS:
            return _murmur2_partition(key, self.partitions)
        try:
            partition = PARTITIONERS[self.partitioner](key, self.partitions)
        except BaseException as raised:  # noqa: BLE001  whatever it raises, it refuses this key
            error = as_error(raised)
            raise ContractError(f"{self._refusal(key)} raised {type(error).__name__}: {error}") from error
        if type(partition) is not int or not 0 <= partition < self.partitions:
            raise ContractError(
                f"{self._refusal(key)} returned {partition!r}: return a number from 0 to {self.partitions - 1}"
            )
        return partition

    def _refusal(self, key: bytes) -> str:
        return f"topic {self.name} takes no key {key!r}: its partitioner {self.partitioner!r}"

    @property
    def latest_topic(self) -> "Topic":
        """The compacted copy of a topic that is held twice."""
        return Topic(
            f"{self.name}.latest",
            partitions=self.partitions,
            compacted=True,
            partitioner=self.partitioner,
            max_event_bytes=self.max_event_bytes,
            format=self.format,
        )


def murmur2(data: bytes) -> int:
    """Hash bytes to an unsigned 32-bit integer exactly as Kafka's Java client does (32-bit MurmurHash2)."""
    m = 0x5BD1E995
    length = len(data)
    h = 0x9747B28C ^ length
    whole = length & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * m & 0xFFFFFFFF
        h = (h * m & 0xFFFFFFFF) ^ ((k ^ k >> 24) * m & 0xFFFFFFFF)
    if length > whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * m & 0xFFFFFFFF
    h = (h ^ h >> 13) * m & 0xFFFFFFFF
    return h ^ h >> 15


@lru_cache(maxsize=16_384)
def _murmur2_partition(key: bytes, partitions: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partitions


PARTITIONERS: dict[str, Callable[[bytes, int], int]] = {_KAFKAS: _murmur2_partition}
"""The known partitioners by name; a project may add its own before it declares topics with it."""

_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
