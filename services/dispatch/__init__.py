"""Dispatch: books with the carrier, and decides whether an order can still be cancelled."""

from eventlib import Service
from services.dispatch import effects as effects
from services.dispatch.decider import shipments

service = Service("dispatch", deciders=[shipments], effects="all")
