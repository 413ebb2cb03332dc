"""What Pydantic has against some input, as a sentence that names the fields."""

from pydantic import ValidationError

_SHOWN = 3


def sentence_of(error: ValidationError) -> str:
    """Return what is wrong with an input, field by field; the input itself is not repeated."""
    details = error.errors(include_url=False, include_input=False, include_context=False)
    shown = [f"field {'.'.join(map(str, each['loc'])) or '(all)'}: {each['msg']}" for each in details[:_SHOWN]]
    return "; ".join([*shown, f"and {len(details) - _SHOWN} more"] if len(details) > len(shown) else shown)
