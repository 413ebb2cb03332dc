"""Keyed state: local stores, global tables, projections."""
