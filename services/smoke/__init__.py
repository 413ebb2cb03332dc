"""A smoke test of a shop that runs: orders are placed over HTTP, all of them end, and the invariants hold on its log."""
