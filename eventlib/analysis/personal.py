"""Personal fields that decide something. Sound for what a function's own source shows, and it says where it cannot see.

After an erasure a handler or evolve sees `ERASED` where it saw a text. Its other outputs stay equal when personal texts are
only handed on: into personal fields of what it makes, into local variables, and into tests of presence (`if name`,
`name is None`), which erasure does not change. Any other use is a finding. Functions that a handler calls by name, and
methods and properties of its states and events, are followed; names are compared, not types.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType
from typing import Any

from eventlib.analysis.event_graph import EventGraph
from eventlib.analysis.personal_uses import Uses
from eventlib.model.decider import Decider
from eventlib.model.finding import Finding
from eventlib.model.personal import personal_fields


def findings(flow: EventGraph) -> Iterable[Finding]:
    """Return the uses of personal texts that an erasure would change."""
    for service in flow.choreography.services:
        for decider in service.deciders:
            if decider.is_personal:
                yield from _of_decider(f"{service.name}/{decider.name}", decider)


def _of_decider(where: str, decider: Decider[Any]) -> Iterator[Finding]:
    classes = list(dict.fromkeys((decider.state, *decider.handlers, *decider.emits)))
    subjects = dict[str, set[str]]()
    for cls in classes:
        for name, subject in personal_fields(cls).items():
            subjects.setdefault(name, set()).add(subject)
    names = {name: frozenset(found) for name, found in subjects.items()}
    waiting = [*decider.functions, *(each for cls in classes for each in _methods(cls))]
    seen = set[Any]()
    while waiting:
        function = inspect.unwrap(waiting.pop())
        if function in seen or not isinstance(function, FunctionType):
            continue
        seen.add(function)
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        except (OSError, TypeError, SyntaxError):
            yield _finding(where, f"{function.__name__}: its source", "cannot be read, so that nothing is proved")
            continue
        uses = Uses(function, names)
        uses.visit(tree)
        for line, what in sorted(set(uses.found)):
            number = function.__code__.co_firstlineno + line - 1
            yield _finding(
                where, f"{decider.name}.{function.__name__}: {what}", f"in line {number} of {_file(function)}"
            )
        waiting += uses.called


def _methods(cls: type[Any]) -> Iterator[Callable[..., Any]]:
    """Yield the methods and properties that the application gives a class; not those with double underscores.

    What calls the latter without naming them (a comparison, for instance) uses the whole object, which is a finding.
    """
    for base in cls.__mro__:
        if base.__module__.partition(".")[0] not in {"builtins", "eventlib", "pydantic"}:
            for name, value in vars(base).items():
                inner = value.fget if isinstance(value, property) else getattr(value, "func", value)
                found = getattr(inner, "__func__", inner)
                if (
                    isinstance(found, FunctionType)
                    and found.__module__ == base.__module__
                    and not name.startswith("__")
                ):
                    yield found


def _file(function: FunctionType) -> str:
    return function.__code__.co_filename.rpartition("/")[2]


def _finding(where: str, subject: str, what: str) -> Finding:
    return Finding(
        "error",
        "personal-field-decides",
        subject,
        where,
        f"{subject}, {what}",
        "after an erasure the text is another one, so that a replay would decide otherwise",
        "hand the text on into personal fields of the same subject only; decide by another field that an earlier step sets",
    )
