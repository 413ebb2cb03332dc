"""Why the code that has decided something decides otherwise now: it was given its values in another form then."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from eventlib.model.schema.normal import open_fields


def why_of_same_code(*values: object) -> str:
    """Return why unchanged code decides otherwise, naming the fields of its input and state; empty where none can be the reason.

    Earlier releases handed a value on as it was made, and not as its bytes give it back, which nothing on the log shows.
    """
    classes: list[Any] = list(map(type, values))
    named = ", ".join(name for cls in classes for name in _fields(cls))
    if not named:
        return ""
    return (
        "its code and the bytes of its input are those of then: either it is not pure, or it was recorded by an earlier release, "
        f"which gave it a value of another zone, scale or class than its bytes have, in {named}"
    )


@lru_cache(maxsize=1_024)
def _fields(cls: type[Any]) -> Sequence[str]:
    return [f"{cls.__name__}.{name}" for name in open_fields(cls)]
