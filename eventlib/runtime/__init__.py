"""The runtime: read, decide, commit."""
