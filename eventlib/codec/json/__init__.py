"""JSON Schema: a class's schema, and values as JSON."""
