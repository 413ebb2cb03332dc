"""States and events that a function changes in place. Exact for what its source names; calls are not followed.

Deciders' functions return a new state. One that is changed in place is the same object as before: the runtime takes that for
no change, and what an event holds is seen by every decider that handles it.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from eventlib.analysis.event_graph import EventGraph
from eventlib.analysis.finding import Finding

_CHANGING = frozenset(
    {
        "append",
        "extend",
        "insert",
        "remove",
        "pop",
        "clear",
        "sort",
        "reverse",
        "add",
        "discard",
        "update",
        "setdefault",
    }
    | {"popitem", "difference_update", "intersection_update", "symmetric_difference_update"}
)


def findings(flow: EventGraph) -> Iterable[Finding]:
    """Return what deciders' functions change in place."""
    for service in flow.choreography.services:
        for decider in service.deciders:
            for function in dict.fromkeys(decider.functions):
                for line, what in changes_in_place(function):
                    yield Finding(
                        "error",
                        "changed-in-place",
                        f"{decider.name}.{function.__name__}: {what}",
                        f"{service.name}/{decider.name}",
                        f"{decider.name}.{function.__name__} changes what it is given, `{what}`, in line {line}",
                        "the runtime sees the same object, and takes it for unchanged: the change is lost with the next restart",
                        "return a new state: `replace(state, items=(*state.items, item))`",
                    )


def changes_in_place(function: Callable[..., Any]) -> Iterator[tuple[int, str]]:
    """Yield the line, and the text, of each statement that changes an argument of a function in place."""
    try:
        source = inspect.unwrap(function)
        tree = ast.parse(textwrap.dedent(inspect.getsource(source)))
    except (OSError, TypeError, SyntaxError):
        return
    declared = next((node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)), None)
    if declared is None:
        return
    first = source.__code__.co_firstlineno - 1
    given = {argument.arg for argument in (*declared.args.posonlyargs, *declared.args.args)}
    parts = set[str]()
    for node in _statements(declared.body):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                (parts.add if _root(value) in given | parts else parts.discard)(name)
            case _ if any(_root(changed) in given | parts for changed in _changed(node, parts)):
                yield first + node.lineno, ast.unparse(node)
            case _:
                pass


def _statements(body: Iterable[ast.AST]) -> Iterator[ast.stmt]:
    for node in body:
        if isinstance(node, ast.stmt):
            yield node
        yield from _statements(ast.iter_child_nodes(node))


def _changed(node: ast.stmt, parts: set[str]) -> Iterable[ast.expr]:
    """Return what a statement changes: of what it assigns to, and of a call whose result it drops."""
    match node:
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            return targets
        case ast.AugAssign(target=target):
            return [target]
        case ast.Expr(ast.Call(func=ast.Attribute(value=changed, attr=name))) if name in _CHANGING:
            # A method of a variable changes a part only where the variable is one: an argument's method is its class's own.
            return [ast.Attribute(changed, name)] if getattr(changed, "id", "") in parts else [changed]
        case _:
            return []


def _root(node: ast.expr) -> str:
    """Return the variable that an expression is a part of; empty for a variable itself, and for anything else."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
        if isinstance(node, ast.Name):
            return node.id
    return ""
