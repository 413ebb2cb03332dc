"""What is paused, as a line for people and as JSON."""

from eventlib.cli._common import output
from eventlib.queries.pauses import Paused


def paused_text(paused: Paused) -> str:
    """Return what is paused as a line for people."""
    state = "is asked to go on" if paused.is_ending else paused.state
    late = f" (tasks that have not taken that up yet: {paused.asked})" if paused.asked else ""
    return f"{paused.target} {state}, since {output.readable(paused.since)} by {paused.by}: {paused.reason}{late}"
