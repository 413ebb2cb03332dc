"""The report: computed from the rebuilt tables, drawn, and put on one page."""
