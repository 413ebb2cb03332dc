"""All rules of the audit, as data."""

from analytics.audit.application import Application
from analytics.audit.bytes import DAMAGED
from analytics.audit.decisions import DECISION_RULES
from analytics.audit.finding import Rule
from analytics.audit.headers import HEADER_RULES
from analytics.audit.invariants import invariant_rules
from analytics.audit.key_rows import MISKEYED, UNREADABLE


def rules(application: Application) -> tuple[Rule, ...]:
    """Return every rule of an application's audit: about bytes, headers, events, its own invariants, and its decisions."""
    return (
        DAMAGED,
        *(each.rule for each in HEADER_RULES),
        UNREADABLE,
        MISKEYED,
        *invariant_rules(application.choreography),
        *DECISION_RULES,
    )
