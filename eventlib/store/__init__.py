"""Local stores: the port, and the adapters behind it."""
