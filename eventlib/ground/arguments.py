"""Arguments that are not what was meant: refused where they are given, with what to give instead."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, TypeVar

from eventlib.errors import WiringError

T = TypeVar("T")
A_LOG = "give an open log: `async with open_log(url, app) as log: ...`"
A_DECIDER = 'give the decider: `orders = Decider("order", state=Order, key="order_id")`'
AN_APP = 'give the application: `Choreography("shop", [service])`'
AN_INVARIANT = "write `@invariant(...)` above the function"
AN_EVENT = "give an event's class: `class OrderPlaced(Event, topic=..., key=...)`"


def check(value: object, kind: type | tuple[type, ...], name: str, remedy: str) -> None:
    """Refuse a value that is not of a kind. Raises: WiringError with the parameter's name and the remedy."""
    if not isinstance(value, kind):
        raise WiringError(f"{name} is {_shown(value)}: {remedy}")


def check_each(values: Iterable[T], kind: type[Any], name: str, remedy: str) -> tuple[T, ...]:
    """Return values of a kind; one alone is taken as the only one. Raises: WiringError as `check` does."""
    if isinstance(values, kind):
        return (values,)
    if not isinstance(values, Iterable) or isinstance(values, str | bytes):
        raise WiringError(f"{name} is {_shown(values)}: {remedy}")
    found = tuple(values)
    for number, each in enumerate(found):
        check(each, kind, f"{name}[{number}]", remedy)
    return found


def check_class(value: object, base: type, name: str, remedy: str) -> None:
    """Refuse what is no class that derives from another. Raises: WiringError as `check` does."""
    if not (isinstance(value, type) and issubclass(value, base)):
        raise WiringError(f"{name} is {_shown(value)}: {remedy}")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the question `did you mean NAME? ` for the known name closest to `name`; an empty text when none is close."""
    as_written = {each.casefold(): each for each in sorted(known)}
    close = get_close_matches(name.casefold(), as_written, n=1)
    return f"did you mean {as_written[close[0]]}? " if close else ""


def _shown(value: object) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}" if value is not None else "None"  # noqa: PLR2004  a line's worth
