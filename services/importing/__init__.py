"""Imports orders from a file: parses them, refuses invalid ones with a reason, and publishes the rest as requests."""
