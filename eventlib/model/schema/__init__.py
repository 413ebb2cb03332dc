"""The schema of a contract: its fields as types, from the annotations of its class."""
