"""The declarations of a service: events, topics, deciders, effects, services, choreographies, invariants.

It knows no log, codec or runtime and does no I/O. Begin with `decider`, then `choreography`.
"""
