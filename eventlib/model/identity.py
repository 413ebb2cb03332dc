"""Identity: derived ids and trace contexts, so that handling a cause again emits the same events."""

from hashlib import blake2b

SAMPLED_SHARE = 0.02
"""The share of sagas that are traced by default: with it, tracing costs some hundredths more."""


def derived_id(cause_id: str, decider: str, key: str, ordinal: int) -> str:
    """Return the id of what a decider emits: the same whenever the same cause is handled again (32 hex digits)."""
    return blake2b(f"{cause_id}\x1f{decider}\x1f{key}\x1f{ordinal}".encode(), digest_size=16).hexdigest()


def deadline_id(decider: str, key: str, name: str, due_at_ms: int) -> str:
    """Return the id of a deadline's passing, the same for one due time (32 hex digits)."""
    return derived_id("deadline", decider, f"{key}\x1f{name}", due_at_ms)


def request_id(topic: str, idempotency_key: str) -> str:
    """Return the id of a request from outside under its caller's idempotency key (32 hex digits)."""
    return derived_id("request", topic, idempotency_key, 0)


def sampling_bound(share: float) -> str:
    """Return what the last 16 hex digits of a trace's id stay below when it is among `share` (0 to 1) of all.

    The rule of OpenTelemetry's TraceIdRatioBased sampler, so that every process with the same share decides the same.
    """
    bound = round(share * (1 << 64))
    return f"{bound:016x}" if bound < 1 << 64 else "g"  # every hex digit comes before it


_DEFAULT_BOUND = sampling_bound(SAMPLED_SHARE)


def root_traceparent(event_id: str, bound: str = _DEFAULT_BOUND) -> str:
    """Return the trace context of an event that nothing on the log has caused (W3C Trace Context, level 1).

    Here it is decided whether the saga is traced, by its id and a `sampling_bound`; all that follows goes by that.
    """
    return f"00-{event_id}-{event_id[:16]}-{'01' if event_id[16:] < bound else '00'}"


def child_traceparent(parent: str | None, event_id: str) -> str:
    """Return the trace context of an event within its cause's trace; the span's id comes from the event's."""
    if parent is None:
        return root_traceparent(event_id)
    return f"{parent[:36]}{event_id[:16]}{parent[52:]}"


def is_sampled(traceparent: str | None) -> bool:
    """Tell whether a trace context marks its trace as recorded."""
    return traceparent is not None and traceparent[-1] in _ODD


_ODD = frozenset("13579bdf")  # the lowest bit of its flags
