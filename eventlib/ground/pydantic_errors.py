"""Pydantic's errors of some input: as a sentence that names the fields, and as a list of bounded length."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

_SHOWN = 3
MOST_ERRORS = 20
"""How many errors of one input an answer names."""
_MOST_LISTED = 2_000
"""With more errors than that an input is not worth the time that it takes to list them, four microseconds each."""


def sentence_of(error: ValidationError) -> str:
    """Return what is wrong with an input, field by field; the input itself is not repeated."""
    details = first_errors(error, _SHOWN)
    shown = [f"field {'.'.join(map(str, each['loc'])) or '(all)'}: {each['msg']}" for each in details]
    left = error.error_count() - len(details)
    return "; ".join([*shown, f"and {left} more"] if left and details[0]["type"] != "too_many" else shown)


def first_errors(error: ValidationError, most: int = MOST_ERRORS) -> list[Mapping[str, Any]]:
    """Return the first errors, without the input; one that only counts them where an input has thousands."""
    count = error.error_count()
    if count > _MOST_LISTED:
        return [{"type": "too_many", "loc": (), "msg": f"{count:,} values or fields are wrong or not known"}]
    found = error.errors(include_url=False, include_input=False, include_context=False)
    return [{**each} for each in found[:most]]
