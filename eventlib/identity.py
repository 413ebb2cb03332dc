"""Who an event is: ids and trace contexts that are derived, so that handling a cause again says the same events."""

from hashlib import blake2b


def derived_id(cause_id: str, decider: str, key: str, ordinal: int) -> str:
    """Return the id of what a decider says: the same whenever the same cause is handled again (32 hex digits)."""
    return blake2b(f"{cause_id}\x1f{decider}\x1f{key}\x1f{ordinal}".encode(), digest_size=16).hexdigest()


def deadline_id(decider: str, key: str, name: str, due_at_ms: int) -> str:
    """Return the id of a deadline's passing, the same for one due time (32 hex digits)."""
    return derived_id("deadline", decider, f"{key}\x1f{name}", due_at_ms)


def request_id(topic: str, idempotency_key: str) -> str:
    """Return the id of a request from outside under its caller's idempotency key (32 hex digits)."""
    return derived_id("request", topic, idempotency_key, 0)


def root_traceparent(event_id: str) -> str:
    """Return the trace context of an event that nothing on the log has caused (W3C Trace Context, level 1)."""
    return f"00-{event_id}-{event_id[:16]}-01"


def child_traceparent(parent: str | None, event_id: str) -> str:
    """Return the trace context of an event within its cause's trace; the span's id comes from the event's."""
    if parent is None:
        return root_traceparent(event_id)
    return f"{parent[:36]}{event_id[:16]}{parent[52:]}"
