"""Whether a name matches a pattern, in time that grows with the name's length only, whoever has written the pattern.

Python's own engine can be kept busy for years by a pattern of ten characters; Rust's, which Pydantic brings, cannot.
It knows no look-around and no back references: whether a name matches one with those stays open.
"""

from functools import lru_cache

from pydantic_core import SchemaError, SchemaValidator, core_schema


def matches(pattern: str, name: str) -> bool | None:
    """Tell whether a name has a match of a pattern anywhere in it; None when that stays open."""
    validator = _validator(pattern)
    return None if validator is None else bool(validator.isinstance_python(name))


@lru_cache(maxsize=512)
def _validator(pattern: str) -> SchemaValidator | None:
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError:
        return None
