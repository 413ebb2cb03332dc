"""Logs: the interface of a log, and its adapters for SQLite, Kafka, memory and archives.

It knows records and topics, never events or codecs. Begin with `base`, then `sqlite`.
"""
