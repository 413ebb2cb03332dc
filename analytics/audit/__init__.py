"""The audit: what proves a log right, or names the order that is not."""

from analytics.audit.auditing import audit
from analytics.audit.finding import FINDING, Rule, Severity
from analytics.audit.rules import rules

__all__ = ["FINDING", "Rule", "Severity", "audit", "rules"]
