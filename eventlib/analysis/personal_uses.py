"""The uses of personal texts in a function's source that are more than handing them on."""

# ruff: noqa: D102  visit_… are named as ast names its nodes

import ast
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from types import FunctionType
from typing import Any

from eventlib.model.personal import personal_fields

Taint = frozenset[str]
"""The names of the subjects' fields of the personal texts in a value; empty for a value without any."""
_CLEAN: Taint = frozenset()
_WHOLE = frozenset(
    {"model_dump", "model_dump_json", "asdict", "astuple", "vars", "getattr", "__dict__", "hash", "attrgetter"}
)
_COPIES = frozenset({"replace", "model_copy", "cast"})
_ABOUT_TYPES = frozenset({"isinstance", "type"})


class Uses(ast.NodeVisitor):
    """Collects the uses of personal texts in one function that are more than handing them on."""

    def __init__(self, function: FunctionType, names: Mapping[str, Taint]) -> None:
        self.found = list[tuple[int, str]]()
        self.called = list[Callable[..., Any]]()
        self._globals = {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
        self._names = names
        self._locals = dict[str, Taint]()
        self._objects = set[str]()

    # --- statements

    def visit_Assign(self, node: ast.Assign) -> None:
        taint = self._of(node.value)
        for target in node.targets:
            self._bind(target, taint)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._bind(node.target, self._of(node.value))

    def visit_If(self, node: ast.If) -> None:
        self._of(node.test)  # presence is no decision that an erasure changes
        self._all(node.body, node.orelse)

    def visit_While(self, node: ast.While) -> None:
        self._of(node.test)
        self._all(node.body, node.body, node.orelse)

    def visit_For(self, node: ast.For) -> None:
        self._bind(node.target, self._clean(node.iter))
        self._all(node.body, node.body, node.orelse)  # twice: what the first round binds, the second one uses

    def visit_Match(self, node: ast.Match) -> None:
        taint = self._of(node.subject)
        for case in node.cases:
            self._pattern(case.pattern, taint)
            if case.guard is not None:
                self._of(case.guard)
            self._all(case.body)

    def visit_Raise(self, node: ast.Raise) -> None:
        """Let an error quote what it wants: its text is withheld where an input is parked."""

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None:
            self._clean(node.value)

    def visit_Expr(self, node: ast.Expr) -> None:
        self._clean(node.value)

    def generic_visit(self, node: ast.AST) -> None:
        """Visit statements that are not named here; an expression of theirs must not be personal."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self._clean(child)
            else:
                self.visit(child)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._objects |= {each.arg for each in node.args.args}
        self._all(node.body)

    def _all(self, *bodies: Iterable[ast.stmt]) -> None:
        for body in bodies:
            for statement in body:
                self.visit(statement)

    def _bind(self, target: ast.expr, taint: Taint) -> None:
        if isinstance(target, ast.Name):
            self._locals[target.id] = self._locals.get(target.id, _CLEAN) | taint
        elif taint:
            self._report(target, "a personal text is put into another place than a variable")

    def _pattern(self, pattern: ast.pattern, taint: Taint) -> None:
        match pattern:
            case ast.MatchAs(pattern=inner, name=name):
                if name is not None:
                    self._objects |= {name} if isinstance(inner, ast.MatchClass) else set()
                    self._locals[name] = self._locals.get(name, _CLEAN) | taint
                if inner is not None:
                    self._pattern(inner, taint)
            case ast.MatchClass():
                keywords = dict(zip(pattern.kwd_attrs, pattern.kwd_patterns, strict=True))
                keywords |= dict(zip(self._positions(pattern.cls), pattern.patterns, strict=False))
                for name, inner in keywords.items():
                    self._pattern(inner, self._names.get(name, _CLEAN))
            case ast.MatchSingleton(value=None):
                return
            case ast.MatchOr(patterns=several) | ast.MatchSequence(patterns=several):
                for inner in several:
                    self._pattern(inner, taint)
            case _ if taint:
                self._report(pattern, "a case compares a personal text")

    # --- expressions

    def _clean(self, node: ast.expr) -> Taint:
        """Look at an expression whose value goes where nothing personal may go."""
        if self._of(node):
            self._report(node, f"{ast.unparse(node)} is personal, and more than handed on")
        return _CLEAN

    def _of(self, node: ast.expr) -> Taint:  # noqa: PLR0911  one answer for each kind
        """Return what is personal in an expression's value, and report what its parts decide."""
        match node:
            case ast.Name(id=name):
                return self._locals.get(name, _CLEAN)
            case ast.Attribute(value=inner, attr=name):
                self._whole(node, name)
                self._of(inner)
                return self._names.get(name, _CLEAN)
            case ast.BoolOp(values=values):
                return frozenset().union(*map(self._of, values))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self._of(operand)
                return _CLEAN
            case ast.IfExp(test=test, body=body, orelse=orelse):
                self._of(test)
                return self._of(body) | self._of(orelse)
            case ast.NamedExpr(target=target, value=value):
                taint = self._of(value)
                self._bind(target, taint)
                return taint
            case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(value=None)]):
                self._of(left)
                return _CLEAN
            case ast.Call():
                return self._call(node)
            case _:
                return self._other(node)

    def _other(self, node: ast.expr) -> Taint:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                if isinstance(node, ast.Compare | ast.FormattedValue | ast.BinOp | ast.Subscript):
                    self._no_object(child)
                self._clean(child)
            elif isinstance(child, ast.comprehension):
                self._bind(child.target, self._clean(child.iter))
                for test in child.ifs:
                    self._of(test)
        return _CLEAN

    def _no_object(self, node: ast.expr) -> None:
        if isinstance(node, ast.Name) and node.id in self._objects:
            self._report(node, f"all of {node.id} is used, with its personal texts")

    def _call(self, node: ast.Call) -> Taint:
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        called = self._globals.get(name)
        self._whole(node, name)
        if isinstance(node.func, ast.Attribute):
            self._clean(node.func.value)
        if isinstance(called, FunctionType) and name not in _COPIES and not called.__module__.startswith("eventlib."):
            self.called.append(called)
        elif name not in _COPIES | _ABOUT_TYPES and not isinstance(called, type):
            for each in (*node.args, *(keyword.value for keyword in node.keywords)):
                self._no_object(each)
        takes = self._names if name in _COPIES else _subjects(called)
        places = dict(enumerate(self._positions(node.func)))
        arguments = [(places.get(at, ""), each) for at, each in enumerate(node.args)]
        for field, value in [*arguments, *((each.arg or "", each.value) for each in node.keywords)]:
            taint = self._of(value)
            if taint - takes.get(field, _CLEAN):
                what = (
                    f"into {field} of {name}, which is not personal, or of another subject"
                    if field
                    else f"into {name}(...)"
                )
                self._report(value, f"{ast.unparse(value)} goes {what}")
        return _CLEAN

    def _positions(self, cls: ast.expr) -> tuple[str, ...]:
        found = self._globals.get(cls.id) if isinstance(cls, ast.Name) else None
        return tuple(each.name for each in fields(found)) if isinstance(found, type) and is_dataclass(found) else ()

    def _whole(self, node: ast.AST, name: str) -> None:
        if name in _WHOLE:
            self._report(node, f"{name} reads fields without naming them")

    def _report(self, node: ast.AST, what: str) -> None:
        self.found.append((getattr(node, "lineno", 1), what))


def _subjects(called: object) -> Mapping[str, Taint]:
    return {n: frozenset({s}) for n, s in personal_fields(called).items()} if _has_fields(called) else {}  # type: ignore[arg-type]


def _has_fields(called: object) -> bool:
    return isinstance(called, type) and (is_dataclass(called) or hasattr(called, "model_fields"))
