"""From a schema's text to its model, in each of the three formats."""

from eventlib.registry.parsing.parse import parse
from eventlib.registry.parsing.parsed import InvalidSchema, Parsed, SchemaType

__all__ = ["InvalidSchema", "Parsed", "SchemaType", "parse"]
