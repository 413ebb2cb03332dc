"""Logs: the port, and the adapters behind it."""

DEFAULT_URL = "sqlite:///var/shop.db"
"""The log that commands work on when nobody names another."""
