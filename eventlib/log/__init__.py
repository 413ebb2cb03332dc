"""Logs: the port, and the adapters behind it."""
