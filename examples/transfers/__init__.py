"""Purchases paid by bank transfer: the bank accepts a request at once, and reports by a signed callback what came of it."""

from eventlib import Choreography, Service
from examples.transfers.bank import ports
from examples.transfers.purchases import purchases
from examples.transfers.simulated import INVARIANTS

app = Choreography(
    "transfers", [Service("purchases", deciders=[purchases], effects="all")], ports=ports, invariants=INVARIANTS
)
