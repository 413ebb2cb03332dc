"""A choreography's contracts: what its events and states promise, against all that was ever registered and written."""
