"""What a decider's function does by its source: calls that make it impure, and paths that end without a return.

A call gives something else each time, waits, or asks the outside world: exact for names that the function's module has;
what it calls itself is not followed, nor are methods of objects. Where a path ends without a return Python returns None:
an `evolve` would lose the key's state, a handler emit nothing. That is exact, but for a `match` on anything but the event.
"""

import ast
import builtins
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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


def without_return(function: ast.FunctionDef, event: str, types: Collection[str]) -> Iterator[int]:
    """Yield the line of each `return` without a value, and of the function where its end can be reached.

    `event` is the parameter that holds the event, one of these `types`.
    """
    if _ends(function.body, event, types):
        yield function.lineno
    for node in _own(function.body):
        if isinstance(node, ast.Return) and (node.value is None or _is_none(node.value)):
            yield node.lineno


def _own(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """Yield what is in statements, without the functions that are declared in them."""
    for statement in body:
        yield statement
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _own(
                [each for each in ast.walk(statement) if isinstance(each, ast.stmt) and each is not statement]
            )


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _ends(body: Sequence[ast.stmt], event: str, types: Collection[str]) -> bool:
    """Tell whether the end of statements can be reached."""
    return all(_passes(statement, event, types) for statement in body)


def _passes(statement: ast.stmt, event: str, types: Collection[str]) -> bool:  # noqa: PLR0911  one for each kind
    """Tell whether what follows a statement can be reached."""
    match statement:
        case ast.Return() | ast.Raise() | ast.Continue() | ast.Break():
            return False
        case ast.Expr(ast.Call(func=ast.Name(id="assert_never") | ast.Attribute(attr="assert_never"))):
            return False
        case ast.If(body=body, orelse=orelse):
            return _ends(body, event, types) or _ends(orelse, event, types)
        case ast.With(body=body):
            return _ends(body, event, types)
        case ast.While(test=ast.Constant(value=True), body=body):
            return any(isinstance(node, ast.Break) for node in ast.walk(statement))
        case ast.Try(body=body, orelse=orelse, handlers=handlers, finalbody=final):
            tried = [[*body, *orelse], *(handler.body for handler in handlers)]
            return _ends(final, event, types) and any(_ends(each, event, types) for each in tried)
        case ast.Match(subject=subject, cases=cases):
            if any(_ends(each.body, event, types) for each in cases):
                return True
            return isinstance(subject, ast.Name) and subject.id == event and not _takes_all(cases, types)
        case _:
            return True


def _takes_all(cases: Sequence[ast.match_case], types: Collection[str]) -> bool:
    """Tell whether a case takes each event, whatever is in it."""
    taken = [name for case in cases if case.guard is None for name in _taken(case.pattern)]
    return "" in taken or {*types} <= {*taken}


def _taken(pattern: ast.pattern) -> Iterator[str]:
    """Yield the classes that a pattern takes whole; an empty name for everything."""
    match pattern:
        case ast.MatchAs(pattern=None):
            yield ""
        case ast.MatchAs(pattern=ast.pattern() as inner):
            yield from _taken(inner)
        case ast.MatchOr(patterns=patterns):
            for each in patterns:
                yield from _taken(each)
        case ast.MatchClass(cls=ast.Name(id=name) | ast.Attribute(attr=name), patterns=[], kwd_patterns=kept):
            if all("" in _taken(each) for each in kept):
                yield name
        case _:
            pass
