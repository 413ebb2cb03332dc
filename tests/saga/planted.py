"""Bugs that are planted into running functions, and which invariant one breaks."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from random import Random
from types import CodeType, FunctionType

import pytest

from eventlib.simulation import Scenario
from eventlib.simulation.scenario import drawn_from
from eventlib.simulation.schedule import InvariantViolated, Schedule
from eventlib.simulation.stage import Stage
from tests.saga.mutant import Mutant, Plant


def broken_by(stage: Stage, scenario: type[Scenario], seed: int) -> str | None:
    """Play a seed's schedule, and return the name of the invariant that is broken, if one is."""
    try:
        Schedule(stage, scenario(), 1 + seed % 3, drawn_from(Random(seed)), keep_story=False).play()
    except InvariantViolated as broken:
        return broken.violation.invariant.name
    return None


def written(file: str, *changes: tuple[str, str]) -> Plant:
    """Return what lets the functions of a module run as if its source had other texts: each change is (before, after)."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        path = _installed(file)
        text = path.read_text(encoding="utf-8")
        for before, after in changes:
            assert text.count(before) == 1, f"{file}: {before!r}"
            text = text.replace(before, after)
        changed = {code.co_qualname: code for code in _codes(compile(text, path, "exec"))}
        gc.unfreeze()  # what is frozen is not listed
        right = [
            each for each in gc.get_objects() if type(each) is FunctionType and each.__code__.co_filename == str(path)
        ]
        gc.freeze()
        assert right, f"{file} is not loaded"
        for function in right:
            code = changed[function.__code__.co_qualname]
            patch.setattr(
                function, "__code__", code.replace(co_flags=function.__code__.co_flags)
            )  # as decorators set them

    return plant


def changed(file: str, before: str, after: str, invariant: str, seed: int) -> Mutant:
    """Return a bug that is written in one place of a module."""
    return Mutant(written(file, (before, after)), invariant, seed)


@contextmanager
def written_instead(file: str, before: str, after: str) -> Iterator[None]:
    """Let the functions of a module run as if its source had another text in one place."""
    with pytest.MonkeyPatch.context() as patch:
        written(file, (before, after))(patch)
        yield


def _installed(file: str) -> Path:
    """Return where a module's source is imported from: the working copy, or an installed wheel."""
    spec = find_spec(file.removesuffix(".py").replace("/", "."))
    assert spec is not None, file
    assert spec.origin is not None, file
    path = Path(spec.origin)
    if path.suffix != ".py":
        pytest.skip("In a compiled module no bug can be planted.")
    return path


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)
