"""Payment: takes each order's money once, and gives it back when the order cannot be completed."""

from eventlib import Service
from services.payment import effects as effects
from services.payment.decider import payments

service = Service("payment", deciders=[payments], effects="all")
