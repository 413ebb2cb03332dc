"""Thing: grants each customer a limited number of units."""

from eventlib import Service

from .decider import balances

service = Service("thing", deciders=[balances])
