"""Functions of deciders that are not pure, or return nothing. Exact for what their source names; calls are not followed.

They return a new state. One that is changed in place is the same object as before: the runtime takes that for
no change, and what an event holds is seen by every decider that handles it.
"""

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from eventlib.analysis.event_graph import EventGraph
from eventlib.analysis.function_bodies import impure_calls, without_return
from eventlib.errors import WiringError
from eventlib.model.decider import Decider, unchanged
from eventlib.model.finding import Finding
from eventlib.model.signatures import may_return_none, name_of

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
    """Return what is wrong in deciders' functions, and states that nothing changes."""
    for service in flow.choreography.services:
        for decider in service.deciders:
            where = f"{service.name}/{decider.name}"
            for each in faults(decider):
                yield replace(each, where=where, what=f"{each.what}, in {each.where}")
            if decider.declared_evolve is unchanged and dataclasses.fields(decider.state):
                yield Finding(
                    "warning",
                    "state-without-evolve",
                    decider.name,
                    where,
                    f"{decider.state.__name__}, the state of {decider.name}, has fields, and no evolve changes them",
                    "each key keeps the defaults, whatever happens",
                    f"write `@{decider.name}.evolve` above a function that returns the state after an event",
                )


def refuse(decider: Decider[Any]) -> None:
    """Refuse a decider with a faulty function. Raises: WiringError."""
    for each in faults(decider):
        raise WiringError(f"{each.where}: {each.what}; {each.why}: {each.remedy}")


def faults(decider: Decider[Any]) -> Iterator[Finding]:
    """Yield what is wrong in a decider's functions, each at its line."""
    types = frozenset(event.__name__ for event in (*decider.handlers, *decider.emits))
    evolve, handlers = decider.declared_evolve, _handlers(decider)
    for function in dict.fromkeys(decider.functions):
        kind = "evolve" if function is evolve else "handler" if function in handlers else "time"
        yield from _faults(function, f"{decider.name}.{name_of(function)}", kind, types)


def _handlers(decider: Decider[Any]) -> list[Callable[..., Any]]:
    passed = [each.handler.call for each in decider.deadlines.values() if each.handler is not None]
    return [*(handler.call for handler in decider.handlers.values()), *passed]


@lru_cache(maxsize=4_096)
def _faults(function: Callable[..., Any], name: str, kind: str, types: frozenset[str]) -> tuple[Finding, ...]:
    declared = _declaration(function)
    if declared is None:
        return ()
    return (
        *_changes(function, name, declared),
        *_calls(function, name, declared),
        *_ends(function, name, kind, types, declared),
    )


class _Declaration(NamedTuple):
    """A function's syntax tree, the line before it, and its file."""

    tree: ast.FunctionDef
    before: int
    file: str

    def line(self, number: int) -> str:
        """Return where a line of the tree is."""
        return f"{self.file}:{self.before + number}"


def _changes(function: Callable[..., Any], name: str, declared: _Declaration) -> Iterator[Finding]:
    for line, what in changes_in_place(function):
        yield Finding(
            "error",
            "changed-in-place",
            f"{name}: {what}",
            f"{declared.file}:{line}",
            f"{name} changes what it is given, `{what}`",
            "the runtime sees the same object, and takes it for unchanged: the change is lost with the next restart",
            "return a new state: `replace(state, items=(*state.items, item))`",
        )


def _calls(function: Callable[..., Any], name: str, declared: _Declaration) -> Iterator[Finding]:
    why = "a replay, or a second attempt, would decide something else"
    for line, what, remedy in impure_calls(inspect.unwrap(function), declared.tree):
        where, told = declared.line(line), f"{name} calls `{what}`"
        yield Finding("error", "impure-call", f"{name}: {what}", where, told, why, remedy)


def _ends(
    function: Callable[..., Any], name: str, kind: str, types: frozenset[str], declared: _Declaration
) -> Iterator[Finding]:
    if kind not in _RETURNS_NOTHING or may_return_none(function):
        return
    parameters = declared.tree.args.args
    event = parameters[1].arg if len(parameters) > 1 else ""
    for line in without_return(declared.tree, event, types):
        where, told = declared.line(line), f"{name} can end without a value"
        yield Finding("error", "missing-return", name, where, told, *_RETURNS_NOTHING[kind])


_RETURNS_NOTHING = {
    "evolve": (
        "its input is parked then, since None forgets a key only where the annotation says so",
        "end with `return` and the state; if the key is to be forgotten, annotate `-> State | None`",
    ),
    "handler": ("nothing is emitted then, and its annotation says otherwise", "end with `return []`"),
}


def changes_in_place(function: Callable[..., Any]) -> Iterator[tuple[int, str]]:
    """Yield the line, and the text, of each statement that changes an argument of a function in place."""
    found = _declaration(function)
    if found is None:
        return
    declared = found.tree
    given = {argument.arg for argument in (*declared.args.posonlyargs, *declared.args.args)}
    parts = set[str]()
    for node in _statements(declared.body):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                (parts.add if _root(value) in given | parts else parts.discard)(name)
            case _ if any(_root(changed) in given | parts for changed in _changed(node, parts)):
                yield found.before + node.lineno, ast.unparse(node)
            case _:
                pass


def _declaration(function: Callable[..., Any]) -> _Declaration | None:
    """Return how a function is declared; None where its source is not at hand."""
    try:
        source = inspect.unwrap(function)
        tree = ast.parse(textwrap.dedent(inspect.getsource(source)))
        file = Path(inspect.getsourcefile(source) or "")
    except (OSError, TypeError, SyntaxError):
        return None
    declared = next((node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)), None)
    if declared is None:
        return None
    shown = file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file
    return _Declaration(declared, source.__code__.co_firstlineno - 1, str(shown))


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
