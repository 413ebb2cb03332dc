"""The report: what is computed from the rebuilt tables, how it is drawn, and the page that it stands on."""
