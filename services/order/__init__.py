"""Order: accepts external requests, and emits how each order ended."""

from eventlib import Service
from services.order.decider import orders

service = Service("order", deciders=[orders], effects="all")
