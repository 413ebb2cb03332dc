"""Mutation operators: every place in a module where one small change makes another program."""

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_CALCULATED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_LEFT_OUT = {"annotation", "returns", "decorator_list", "bases", "type_comment"}
"""What has no behaviour of its own, or cannot be another without the module failing to load."""


class Site(NamedTuple):
    """One place and one change: `plant` makes it in the tree that it was found in."""

    node: ast.AST
    operator: str
    before: str
    after: str
    context: "Context"
    plant: Callable[[], None]


@dataclass(frozen=True)
class Context:
    """Where the walk is; `lines` are those of the innermost statement, or of its head if others are in it."""

    scope: tuple[str, ...] = ()
    lines: tuple[int, int] = (0, 0)
    in_function: bool = False
    function: _Function | None = field(default=None, compare=False)


def sites(tree: ast.Module) -> list[Site]:
    """Return all places of a module, in the order of its text; the same tree gives the same ones."""
    return [*_in(tree, Context())]


def _in(parent: ast.AST, context: Context) -> Iterator[Site]:
    for name, value in ast.iter_fields(parent):
        if name in _LEFT_OUT or isinstance(parent, ast.Assert | ast.JoinedStr):
            continue
        children = [*enumerate(value)] if isinstance(value, list) else [(-1, value)]
        for index, child in children:
            if isinstance(child, ast.AST) and not _has_no_behaviour(child):
                within = _entered(child, context)

                def put(node: ast.AST, name: str = name, index: int = index) -> None:
                    if index < 0:
                        setattr(parent, name, node)
                    else:
                        getattr(parent, name)[index] = node

                yield from _here(child, parent, within, put)
                yield from _in(child, within)


def _has_no_behaviour(node: ast.AST) -> bool:
    match node:
        case ast.Expr(value=ast.Constant()) | ast.Import() | ast.ImportFrom():
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name == "__all__" or name.startswith("__slots__")
        case _:
            return False


def _entered(node: ast.AST, context: Context) -> Context:
    if isinstance(node, _Function | ast.ClassDef):
        inner = replace(context, scope=(*context.scope, node.name), lines=(node.lineno, node.body[0].lineno - 1))
        return replace(inner, in_function=True, function=node) if isinstance(node, _Function) else inner
    if isinstance(node, ast.stmt | ast.match_case | ast.ExceptHandler):
        body = getattr(node, "body", None)
        first = node.pattern.lineno if isinstance(node, ast.match_case) else node.lineno
        end = body[0].lineno - 1 if body else getattr(node, "end_lineno", None)
        return replace(context, lines=(first, max(first, end or first)))
    return context


Put = Callable[[ast.AST], None]


def _here(node: ast.AST, parent: ast.AST, context: Context, put: Put) -> Iterator[Site]:
    """Yield what can be changed at a node itself."""
    for operator, after in _changed(node, parent, context):
        made = ast.copy_location(after, node) if hasattr(node, "lineno") else after
        ast.fix_missing_locations(made)

        def plant(made: ast.AST = made) -> None:
            put(made)

        yield Site(node, operator, _text(node), _text(made), context, plant)


def _changed(node: ast.AST, parent: ast.AST, context: Context) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.Constant):
        yield from _other_constants(node, parent, context)
    elif isinstance(node, ast.expr):
        yield from _other_expressions(node)
    elif isinstance(node, ast.stmt):
        yield from _other_statements(node)
    if isinstance(node, ast.Match | ast.MatchOr):
        yield from _other_cases(node)
    if isinstance(node, ast.expr) and _is_condition(node, parent) and not isinstance(node, ast.Compare | ast.UnaryOp):
        yield "condition", ast.UnaryOp(ast.Not(), node)


def _other_expressions(node: ast.expr) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.Compare():
            yield from _other_comparisons(node)
        case ast.BoolOp():
            yield from _other_conditions(node)
        case ast.BinOp():
            yield from _other_calculations(node)
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield "negation", node.operand
        case ast.Call(func=ast.Name(id="replace")):
            for index in range(len(node.keywords)):
                yield "argument", _without(node, "keywords", index)


def _other_cases(node: ast.Match | ast.MatchOr) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.MatchOr):
        for index in range(len(node.patterns)):
            yield "case", _without(node, "patterns", index)
    elif len(node.cases) > 1:
        for index, case in enumerate(node.cases):
            if not _is_wildcard(case):
                yield "case", _without(node, "cases", index)


def _is_condition(node: ast.AST, parent: ast.AST) -> bool:
    match parent:
        case ast.If() | ast.While() | ast.IfExp():
            return node is parent.test
        case ast.comprehension():
            return node in parent.ifs
        case ast.match_case():
            return node is parent.guard
        case _:
            return False


def _is_wildcard(case: ast.match_case) -> bool:
    return isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None and case.guard is None


def _without(node: ast.AST, name: str, index: int) -> ast.AST:
    other = copy.copy(node)
    left = [*getattr(node, name)]
    del left[index]
    setattr(other, name, left)
    return left[0] if isinstance(node, ast.MatchOr) and len(left) == 1 else other


def _other_calculations(node: ast.BinOp | ast.AugAssign) -> Iterator[tuple[str, ast.AST]]:
    if type(node.op) in _CALCULATED:
        other = copy.copy(node)
        other.op = _CALCULATED[type(node.op)]()
        yield "calculation", other


def _other_comparisons(node: ast.Compare) -> Iterator[tuple[str, ast.AST]]:
    for index, op in enumerate(node.ops):
        other = copy.copy(node)
        other.ops = [*node.ops]
        other.ops[index] = _COMPARED[type(op)]()
        yield "comparison", other


def _other_conditions(node: ast.BoolOp) -> Iterator[tuple[str, ast.AST]]:
    other = copy.copy(node)
    other.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    yield "and, or", other
    for index in range(len(node.values)):
        left = node.values[:index] + node.values[index + 1 :]
        yield "operand", left[0] if len(left) == 1 else ast.BoolOp(node.op, left)


def _other_constants(node: ast.Constant, parent: ast.AST, context: Context) -> Iterator[tuple[str, ast.AST]]:
    value = node.value
    if isinstance(value, bool):
        yield "constant", ast.Constant(not value)
    elif isinstance(value, int | float):
        yield "constant", ast.Constant(value + 1)
    elif isinstance(value, str) and value.isidentifier() and (context.in_function or isinstance(parent, ast.Assign)):
        yield "constant", ast.Constant(value + "_")  # names and keys, and no sentence


def _other_statements(node: ast.stmt) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.Return(value=ast.List(elts=[_, *_]) | ast.ListComp()):
            yield "return", ast.Return(ast.List([], ast.Load()))
        case ast.Return(value=ast.Name() | ast.Attribute() | ast.Call() | ast.Await()):
            yield "return", ast.Return(ast.Constant(None))
        case ast.AugAssign():
            yield from _other_calculations(node)
            yield "statement", ast.Pass()
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.Raise() | ast.Delete():
            yield "statement", ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "statement", ast.Pass()
        case ast.Continue():
            yield "jump", ast.Break()
        case ast.Break():
            yield "jump", ast.Continue()


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.Match):  # its cases alone say what is gone
        return "match " + ", ".join(ast.unparse(case.pattern) for case in node.cases)
    return " ".join(ast.unparse(node).split())
