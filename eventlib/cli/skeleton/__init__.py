"""Thing: so many units for each customer, and no more."""

from eventlib import Service

from .decider import balances

service = Service("thing", deciders=[balances])
