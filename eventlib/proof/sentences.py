"""What a comparison says, in sentences and lines that all its forms share."""

from eventlib.model.measures import Measures
from eventlib.proof.differing import Diff, DifferenceGroup, Total
from eventlib.replay.report import Difference

_KINDS = {
    "other": "emits other events",
    "silent": "emits nothing now",
    "talks": "emits something now",
    "raises": "raises, so that the input is parked",
    "unreadable": "cannot read the input, which is parked",
    "no-deadline": "sets no such deadline",
    "overdue": "would have let a deadline pass",
    "unhandled": "does not handle the input",
    "recovers": "handles what was parked",
}


def headline(found: Diff) -> str:
    """Return how much differs, and what that comes to."""
    scope = f"{found.decisions:,} decisions on {found.events:,} events"
    if not found.groups:
        return f"Nothing differs from {found.base}, in {scope}."
    sagas = found.sagas
    parts = [_total(each) for each in found.totals]
    parts += [f"{found.parked:,} parked"] if found.parked else []
    told = f": {', '.join(parts)}" if parts else ""
    return f"{count_of(len(sagas), 'saga')} {'differs' if len(sagas) == 1 else 'differ'}, in {found.differences:,} of {scope}{told}."


def group_line(group: DifferenceGroup) -> str:
    """Return what a group's decisions have in common."""
    delta = f" ({' '.join(group.signature.delta)})" if group.signature.delta else ""
    return f"{group.signature.handler} on {group.signature.input} {_KINDS[group.signature.kind]}{delta}"


def counts(group: DifferenceGroup) -> str:
    """Return how many decisions, and in how many sagas."""
    return f"{count_of(group.decisions, 'decision')} in {count_of(len(group.sagas), 'saga')}"


def debugger_command(difference: Difference) -> str:
    """Return the command that stops in the handler with the arguments of a decision."""
    cause, decider = difference.input.cause, difference.decider
    return f"eventlib replay --key {difference.key} --break-at {cause} --decider {decider}"


def amounts(measures: Measures) -> str:
    """Return what money and units come to: `412.00 GBP, 3 units`."""
    return ", ".join(f"{amount:+,f} {unit}" for unit, amount in sorted(measures.items()))


def _total(total: Total) -> str:
    more = (
        f"{abs(total.events):,} {total.type} {'more' if total.events > 0 else 'less'}" if total.events else total.type
    )
    return f"{more} ({amounts(total.measures)})" if total.measures else more


def count_of(count: int, what: str) -> str:
    """Return a number with its noun: `1 saga`, `2,500 sagas`."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
