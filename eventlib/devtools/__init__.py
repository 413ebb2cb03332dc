"""Tools for development: a Kafka broker as a local process.

It knows the ground floor; only commands and tests start it. Begin with `kafka`.
"""
