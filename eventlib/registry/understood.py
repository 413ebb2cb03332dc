"""Schemas as they are kept, and what they declare."""

from dataclasses import dataclass, replace
from functools import lru_cache

from eventlib.registry.canonical import normal
from eventlib.registry.parsing import Parsed, parse
from eventlib.registry.records import Schema

_PARSED_KEPT = 512


@dataclass(frozen=True, slots=True)
class Understood:
    """A schema as it is kept, and what it declares."""

    schema: Schema
    parsed: Parsed


@lru_cache(maxsize=_PARSED_KEPT)
def parsed_once(schema: Schema, referenced_texts: tuple[tuple[str, str], ...], *, normalize: bool) -> Understood:
    """Return a schema as it is kept; the latest are remembered. Raises: InvalidSchema."""
    texts = dict(referenced_texts)
    parsed = parse(schema.kind, schema.text, texts)
    kept = replace(schema, text=parsed.text)
    if normalize:
        kept = normal(kept, parsed, texts)
        parsed = parse(kept.kind, kept.text, texts)
    return Understood(kept, parsed)
