"""The declarations of a service: events, topics, deciders, effects, services, choreographies, invariants.

It knows no log, codec or runtime. `project`, which finds an application, and `sampling`, a setting, look outside; the rest
does no I/O. Begin with `decider`, then `choreography`.
"""
