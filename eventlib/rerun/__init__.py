"""Changing a service's course on purpose: its positions moved, an input skipped, its past run again by other code."""
