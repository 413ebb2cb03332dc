"""Keyed state: local stores of services, and global tables, which copy a topic.

It knows logs and codecs, never a decider. Begin with `base`, the interface of a store.
"""
