"""Logs: the backend interface, and its adapters."""

DEFAULT_URL = "sqlite:///var/shop.db"
"""The log that commands use by default."""
