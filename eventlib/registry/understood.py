"""Schemas as they are kept, and what they declare."""

from dataclasses import dataclass, replace
from functools import lru_cache

from eventlib.registry.canonical import normal
from eventlib.registry.compatibility import Budget, OverBudgetError, compared, within
from eventlib.registry.parsing import InvalidSchema, Parsed, parse
from eventlib.registry.records import Schema

_PARSED_KEPT = 512
_TRIED_PAIRS, _TRIED_S = 2_000, 0.5


@dataclass(frozen=True, slots=True)
class Understood:
    """A schema as it is kept, what it declares, and its normal form, which other spellings of it have, too."""

    schema: Schema
    parsed: Parsed
    canonical: Schema


@lru_cache(maxsize=_PARSED_KEPT)
def parsed_once(schema: Schema, referenced_texts: tuple[tuple[str, str], ...], *, normalize: bool) -> Understood:
    """Return a schema as it is kept; the latest are remembered. Raises: InvalidSchema."""
    texts = dict(referenced_texts)
    parsed = parse(schema.kind, schema.text, texts)
    kept = replace(schema, text=parsed.text)
    canonical = normal(kept, parsed, texts)
    if normalize:
        kept = canonical
        parsed = parse(kept.kind, kept.text, texts)
    _refuse_incomparable(parsed)
    return Understood(kept, parsed, canonical)


def _refuse_incomparable(parsed: Parsed) -> None:
    """Refuse a schema that is nested too deeply to be compared with any later one. Raises: InvalidSchema."""
    try:
        with within(Budget(_TRIED_PAIRS, _TRIED_S)):
            compared(reader=parsed, writer=parsed)
    except OverBudgetError:
        pass  # a comparison says so, where there is one
    except RecursionError:
        raise InvalidSchema(
            "its types lead to each other too deeply to be compared with other versions: nest less"
        ) from None
