"""Finds what goes wrong first: between this machine and its log, on the log, and on the local disk."""
