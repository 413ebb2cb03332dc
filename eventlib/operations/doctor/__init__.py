"""Examines logs, clusters and stores, and repairs what can be proved."""
