"""Thing: a saga that charges a customer over HTTP, and pays back what is not confirmed in time."""

from eventlib import Service

from .decider import orders
from .effects import charge, refund

__all__ = ["charge", "refund", "service"]

service = Service("thing", deciders=[orders])
