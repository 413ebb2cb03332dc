"""Paths through a decider's function that end without a return. Exact for what its source names, but for a `match` on anything but the event.

Python returns None there: an `evolve` would lose the key's state, and a handler would emit nothing.
"""

import ast
from collections.abc import Collection, Iterator, Sequence


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
