"""Tools for development and tests."""
