"""How long things took, in bounded memory."""

import math
from collections import Counter

_EXACT_MS = 1_000
_STEPS_PER_E = 100  # beyond a second, buckets of 1 %


class Histogram:
    """A histogram of durations in ms: exact up to a second, to 1 % beyond."""

    def __init__(self) -> None:
        self._buckets = Counter[int]()
        self.count = 0

    def add(self, duration_ms: int) -> None:
        """Count one duration."""
        self._buckets[_bucket(max(duration_ms, 0))] += 1
        self.count += 1

    def percentile(self, share: float) -> int | None:
        """Return the duration (ms) that `share` (0 to 1) of all did not exceed; None when there are none."""
        wanted = math.ceil(share * self.count) or 1
        for bucket in sorted(self._buckets):
            wanted -= self._buckets[bucket]
            if wanted <= 0:
                return _duration(bucket)
        return None


def _bucket(duration_ms: int) -> int:
    if duration_ms <= _EXACT_MS:
        return duration_ms
    return _EXACT_MS + math.ceil(_STEPS_PER_E * math.log(duration_ms / _EXACT_MS))


def _duration(bucket: int) -> int:
    if bucket <= _EXACT_MS:
        return bucket
    return round(_EXACT_MS * math.exp((bucket - _EXACT_MS) / _STEPS_PER_E))
