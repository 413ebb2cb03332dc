"""Writes a case as a test: given what had happened, when this arrives, then this is emitted."""

import re
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple
from uuid import UUID

from pydantic import BaseModel

from eventlib.errors import ContractError
from eventlib.invariants import Invariant
from eventlib.model.choreography import Choreography
from eventlib.model.event import Event
from eventlib.proof.cases import Case
from eventlib.simulation.scenario import Scenario
from eventlib.testing.given import DEFAULT_TIME

_WIDTH = 88


class _Source:
    """Writes values as Python, and notes what has to be imported for that."""

    def __init__(self) -> None:
        self._imports = defaultdict[str, set[str]](set)

    def named(self, thing: Any, name: str | None = None) -> str:
        """Return a class's or function's name, which is imported."""
        name = name or thing.__qualname__
        self._imports[thing.__module__].add(name.partition(".")[0])
        return name

    def imported(self, module: str, name: str) -> str:
        """Return a name of a module, which is imported."""
        self._imports[module].add(name)
        return name

    def imports(self) -> str:
        """Return the imports: the standard library's, those of packages, the application's."""
        groups = defaultdict[int, list[str]](list)
        for module, names in sorted(self._imports.items()):
            top = module.partition(".")[0]
            group = 0 if top in sys.stdlib_module_names else 1 if top == "eventlib" else 2
            told = ", ".join(sorted(names, key=_order_of))
            groups[group].append(f"from {module} import {told}")
        return "\n\n".join("\n".join(groups[group]) for group in sorted(groups))

    def of(self, value: Any, indent: int) -> str:  # noqa: PLR0911  one answer for each type
        """Return the source of a value."""
        match value:
            case Enum():
                return f"{self.named(type(value))}.{value.name}"
            case BaseModel():
                return self._model(value, indent)
            case tuple() | list():
                return self._sequence(value, indent)
            case dict():
                parts = [f"{self.of(k, indent + 4)}: {self.of(v, indent + 4)}" for k, v in value.items()]
                return self.call("{", parts, "}", indent)
            case datetime():
                self.imported("datetime", "datetime")
                zone = f", tzinfo={self.imported('datetime', 'UTC')}" if value.tzinfo is not None else ""
                when = value.astimezone(UTC) if value.tzinfo is not None else value
                numbers = when.year, when.month, when.day, when.hour, when.minute, when.second, when.microsecond
                return f"datetime({', '.join(map(str, numbers))}{zone})"
            case date() | time() | timedelta():
                self.imported("datetime", type(value).__name__)
                return repr(value).removeprefix("datetime.")
            case Decimal() | UUID():
                return f'{self.named(type(value))}("{value}")'
            case str():
                return _quoted(value)
            case _:
                return repr(value)

    def _model(self, value: BaseModel, indent: int) -> str:
        given = {
            name: getattr(value, name)
            for name, info in type(value).model_fields.items()
            if info.is_required() or getattr(value, name) != info.get_default(call_default_factory=True)
        }
        parts = [f"{name}={self.of(each, indent + 4)}" for name, each in given.items()]
        return self.call(f"{self.named(type(value))}(", parts, ")", indent)

    def _sequence(self, value: Sequence[Any], indent: int) -> str:
        parts = [self.of(each, indent + 4) for each in value]
        if isinstance(value, list):
            return self.call("[", parts, "]", indent)
        return f"({parts[0]},)" if len(parts) == 1 and "\n" not in parts[0] else self.call("(", parts, ")", indent)

    def call(self, head: str, parts: Sequence[str], tail: str, indent: int) -> str:
        """Return parts between brackets: on one line if they fit, else each on its own."""
        line = f"{head}{', '.join(parts)}{tail}"
        if len(line) + indent <= _WIDTH and "\n" not in line:
            return line
        inner = " " * (indent + 4)
        return f"{head}\n" + "".join(f"{inner}{part},\n" for part in parts) + f"{' ' * indent}{tail}"


class Answer(NamedTuple):
    """What code makes of a case, or has to: what it emits, fields of the state after it, what is due, what it raises.

    A deadline that is None is not due.
    """

    emitted: Sequence[Event] = ()
    state: Mapping[str, Any] = {}
    due: Mapping[str, datetime | None] = {}
    error: str = ""


def as_test(case: Case, title: str, why: str, expected: Answer | None = None) -> str:
    """Return a test file: that the case comes to what is `expected`, or, without that, that it does not fail.

    Raises: ContractError when the decider has no name in its module.
    """
    source = _Source()
    decider = case.decider
    own = [handler.call.__module__ for handler in decider.handlers.values() if hasattr(handler.call, "__module__")]
    parts = [source.imported(*_home(decider, f"decider {decider.name}", *own))]
    parts += (source.of(each, 8) for each in case.history)
    if case.at != DEFAULT_TIME:
        parts.append(f"at={source.of(case.at, 8)}")
    source.imported("eventlib.testing", "given")
    lines = [f"happened = {source.call('given(', parts, ')', 4)}"]
    is_deadline = isinstance(case.input, str)
    when = f"happened.{'when_passed' if is_deadline else 'when'}("
    head = when if expected is None else f"decided = {when}"
    lines.append(source.call(head, [source.of(case.input, 8)], ")", 4))
    if expected is not None:
        lines.append(source.call("decided.then(", [source.of(each, 8) for each in expected.emitted], ")", 4))
        for check, values in (("then_state", expected.state), ("then_due", expected.due)):
            parts = [f"{name}={source.of(value, 8)}" for name, value in values.items()]
            lines += [source.call(f"decided.{check}(", parts, ")", 4)] if parts else []
    told = case.input if isinstance(case.input, str) else re.sub(r"\W+", "_", type(case.input).__name__)
    name = f"test_{case.decider.name}_on_{_snake(told)}".replace("-", "_")
    body = "".join(f"    {line}\n" for line in lines)
    return f'"""{title}"""\n\n{source.imports()}\n\n\ndef {name}() -> None:\n    """{why}"""\n{body}'


def as_exploration(
    title: str,
    invariant: Invariant,
    of: tuple[Choreography, type[Scenario]],
    before: Sequence[Event],
    requests: Sequence[Event],
) -> str:
    """Return a test file: that some requests break no invariant, in whatever order they are handled and answered.

    Raises: ContractError when the application has no name in its module.
    """
    source, (app, scenario) = _Source(), of
    source.imported("eventlib.testing", "check_invariants")
    named = source.imported(*_home(app, f"application {app.name}"))
    parts = [named, source.named(scenario), *(source.of(each, 8) for each in requests)]
    if before:
        parts.append(f"before={source.of([*before], 8)}")
    call = source.call("check_invariants(", parts, ")", 4)
    name = f"test_{invariant.name}".replace("-", "_")
    why = f"It broke an invariant: {invariant.sentence}"
    return f'"""{title}"""\n\n{source.imports()}\n\n\ndef {name}() -> None:\n    """{why}"""\n    {call}\n'


def _home(thing: object, what: str, *own: str) -> tuple[str, str]:
    """Return the module and the name that a thing has, in one of its own modules if it can be."""
    for module in dict.fromkeys((*own, *sorted(sys.modules))):  # others may have imported it
        for name, value in {**vars(sys.modules.get(module, sys))}.items():
            if value is thing:
                return module, name
    raise ContractError(f"{what} is no name of a module, so that no test can import it: assign it to one")


def _quoted(text: str) -> str:
    found = repr(text)
    return f'"{found[1:-1]}"' if found[0] == "'" and '"' not in text else found


def _order_of(name: str) -> tuple[bool, bool, str, str]:
    """Return by what isort and ruff order imported names: constants, classes, others; of each kind without regard to case."""
    return not (name.isupper() and len(name) > 1), not name[:1].isupper(), name.lower(), name


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
