"""Findings of a check of a choreography's types, and those that were declared as intended."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Finding:
    """Something in the choreography that a person should look at.

    `subject` names it, together with `rule`, for an Accepted. `where` is `service/decider.handler` or an event.
    `accepted` is the reason why it is meant to be so, else None.
    """

    severity: Literal["error", "warning"]
    rule: str
    subject: str
    where: str
    what: str
    why: str
    remedy: str
    accepted: str | None = None


@dataclass(frozen=True, slots=True)
class Accepted:
    """A finding that is meant to be so, and the reason; it is shown, and counts no more."""

    rule: str
    subject: str
    reason: str
