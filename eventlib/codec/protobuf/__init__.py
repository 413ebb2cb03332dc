"""Protocol Buffers: a class's schema, and values as messages."""
