"""Examines logs, clusters and stores, and writes again what a log's records imply."""
