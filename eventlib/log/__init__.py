"""Logs: the backend interface, and its adapters."""
