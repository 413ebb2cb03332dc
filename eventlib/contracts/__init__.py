"""A choreography's contracts: what its events and states promise, against all that was registered and written.

It knows codecs, the registry and the runtime's own records. Begin with `preflight`.
"""
