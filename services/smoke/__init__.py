"""A smoke test of a shop that runs: orders are placed over HTTP, all of them end, and the laws hold on its log."""
