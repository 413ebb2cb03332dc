"""The audit: proves that a log is correct, or names the orders that are not."""

from analytics.audit.auditing import audit
from analytics.audit.finding import FINDING, Rule, Severity
from analytics.audit.rules import rules

__all__ = ["FINDING", "Rule", "Severity", "audit", "rules"]
