"""Calls that give something else each time, wait, or ask the outside world. Exact for names that a function's module has.

What it calls itself is not followed, nor are methods of objects.
"""

import ast
import builtins
import inspect
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

_CLOCK = "the time of an event is `meta.recorded_at`; what happens later is a deadline"
_CHANCE = "take it from the event, or let an effect answer it"
_OUTSIDE = "ask the outside world in an effect, and decide about its answer"

_REMEDIES: Mapping[str, str] = {
    "datetime.datetime.now": _CLOCK,
    "datetime.datetime.today": _CLOCK,
    "datetime.datetime.utcnow": _CLOCK,
    "datetime.date.today": _CLOCK,
    "time": _CLOCK,
    "random": _CHANCE,
    "secrets": _CHANCE,
    "uuid.uuid1": _CHANCE,
    "uuid.uuid4": _CHANCE,
    "uuid.uuid6": _CHANCE,
    "uuid.uuid7": _CHANCE,
    "os": _OUTSIDE,
    "io.open": _OUTSIDE,
    "_io.open": _OUTSIDE,  # its name from Python 3.13 on
    "builtins.open": _OUTSIDE,
    "builtins.input": _OUTSIDE,
    "asyncio": _OUTSIDE,
    "socket": _OUTSIDE,
    "subprocess": _OUTSIDE,
    "sqlite3": _OUTSIDE,
    "urllib.request": _OUTSIDE,
    "httpx": _OUTSIDE,
    "requests": _OUTSIDE,
}
"""What to do instead of a call, by its name or that of a module all of which is meant."""

_PURE = frozenset({"time.strftime", "time.strptime", "time.gmtime", "time.struct_time", "os.fspath"})


def impure_calls(function: Callable[..., Any], tree: ast.FunctionDef) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the text, and the remedy of each call in a function that makes it impure."""
    names = {**vars(builtins), **getattr(function, "__globals__", {}), **_closure(function)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (name := _name(node.func, names)):
            remedy = None if name in _PURE or name.startswith("os.path.") else _remedy(name)
            if remedy is not None:
                yield node.lineno, ast.unparse(node), remedy


def _closure(function: Callable[..., Any]) -> Mapping[str, Any]:
    try:
        return inspect.getclosurevars(function).nonlocals
    except (TypeError, ValueError):  # a name in it is not set yet
        return {}


def _remedy(name: str) -> str | None:
    while name:
        if name in _REMEDIES:
            return _REMEDIES[name]
        name = name.rpartition(".")[0]
    return None


def _name(called: ast.expr, names: Mapping[str, Any]) -> str:
    """Return the full name of what is called; empty where it is not one of a module's, or of a class of one."""
    match called:
        case ast.Name(id=name) if name in names:
            return _full_name(names[name])
        case ast.Attribute(value=owner, attr=attribute):
            owned = _object(owner, names)
            if isinstance(owned, ModuleType | type):
                return f"{_full_name(owned)}.{attribute}"
    return ""


def _object(node: ast.expr, names: Mapping[str, Any]) -> object:
    match node:
        case ast.Name(id=name):
            return names.get(name)
        case ast.Attribute(value=owner, attr=attribute):
            owned = _object(owner, names)
            return vars(owned).get(attribute) if isinstance(owned, ModuleType | type) else None
    return None


def _full_name(found: object) -> str:
    if isinstance(found, ModuleType):
        return found.__name__
    owner = getattr(found, "__self__", None)  # a method of a module's own object, such as `random.random`
    module = getattr(found, "__module__", None) or type(owner).__module__
    return f"{module}.{getattr(found, '__qualname__', '')}"
