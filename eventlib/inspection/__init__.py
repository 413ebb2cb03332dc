"""Looking at a log: what is on it, how one saga went, what a decider knows, and what is parked."""
