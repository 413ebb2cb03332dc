"""What is paused, as a line for people and as JSON."""

from dataclasses import asdict

from eventlib.cli._common import output
from eventlib.queries.pauses import Paused


def paused_text(paused: Paused) -> str:
    """Return what is paused as a line for people."""
    state = "is asked to go on" if paused.is_ending else paused.state
    late = f" (tasks that have not taken that up yet: {paused.asked})" if paused.asked else ""
    return f"{paused.target} {state}, since {output.readable(paused.since)} by {paused.by}: {paused.reason}{late}"


def paused_json(paused: Paused) -> dict[str, object]:
    """Return what is paused as JSON."""
    facts = asdict(paused)
    del facts["target"]
    return {**paused.target._asdict(), "kind": paused.target.kind, **facts, "since": output.iso(paused.since)}
