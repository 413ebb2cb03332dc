"""Regular expressions from outside, on an engine whose time is linear in the text: Rust's, which pydantic brings."""

from functools import lru_cache

from pydantic_core import SchemaError, SchemaValidator, core_schema


class LinearRegex:
    """A pattern that is searched for in texts; it has no look-around and no back-references.

    Guarantee: a search takes time in proportion to the text, whatever the pattern. Raises: ValueError for one that is none.
    """

    def __init__(self, pattern: str) -> None:
        self._validator = _validator(pattern)

    def search(self, text: str) -> bool:
        """Return whether the pattern matches anywhere in a text."""
        return self._validator.isinstance_python(text)


@lru_cache(maxsize=512)
def _validator(pattern: str) -> SchemaValidator:
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError as error:
        raise ValueError(str(error).strip().splitlines()[-1].rpartition("rror: ")[2]) from error
