"""Importing orders from a file: what is read, what is refused and why, and how the rest becomes requests on the log."""
