"""A smoke test of a running shop: places orders over HTTP, waits for their ends, checks the log's invariants."""
