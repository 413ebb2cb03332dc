"""The compiled core is the same program: what compiling would change is not compiled."""

import ast
import pickle
import re
from collections.abc import Iterator
from functools import cache

import pytest

from eventlib.model.record import Record
from tests import compiled_core

MODULES = [str(path.relative_to(compiled_core.ROOT)) for path in compiled_core.sources()]


@cache
def parsed(name: str) -> ast.Module:
    return ast.parse((compiled_core.ROOT / name).read_text())


def handlers(module: ast.Module) -> Iterator[ast.stmt]:
    """Yield what runs while an error may be under way."""
    for node in ast.walk(module):
        if isinstance(node, ast.Try):
            yield from node.finalbody
            yield from (statement for handler in node.handlers for statement in handler.body)
        elif isinstance(node, ast.AsyncWith):
            yield node


@pytest.mark.parametrize("name", MODULES)
def test_nothing_waits_while_it_handles_an_error(name: str) -> None:
    waiting: list[ast.expr | ast.stmt] = [
        node
        for each in handlers(parsed(name))
        for node in ast.walk(each)
        if isinstance(node, ast.Await | ast.AsyncWith)
    ]
    assert not waiting, (
        f"{name}:{waiting[0].lineno}: compiled, the error would be the context of all that runs meanwhile"
    )


@pytest.mark.parametrize("name", MODULES)
def test_nothing_calls_itself(name: str) -> None:
    classes = [node for node in parsed(name).body if isinstance(node, ast.ClassDef)]
    for prefix, body in [("", parsed(name).body), *(("self.", each.body) for each in classes)]:
        for function in body:
            called = {ast.unparse(node.func) for node in ast.walk(function) if isinstance(node, ast.Call)}
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                assert f"{prefix}{function.name}" not in called, f"{function.name}: compiled, recursion has no limit"


def test_the_command_says_which_core_runs() -> None:
    from tests.commands import said

    assert re.fullmatch(r"eventlib \S+ \((compiled core|pure Python)\)\n", said("--version"))


def test_a_record_is_a_value() -> None:
    record = Record("orders", 1, 7, 1_000, b"k", None, headers=(("a", b"b"),))
    assert pickle.loads(pickle.dumps(record)) == record  # noqa: S301  its own
    assert record.replace(offset=8) == record.placed(8) != record
    assert len({record, record.placed(7)}) == 1
    assert repr(record).startswith("Record(topic='orders', partition=1, offset=7")
    with pytest.raises(TypeError):
        record.replace(position=1)
