"""Bugs that are planted into running functions, and which invariant one breaks."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from types import CodeType, FunctionType

from eventlib.simulation import Scenario
from eventlib.simulation.scenario import drawn_from
from eventlib.simulation.schedule import InvariantViolated, Schedule
from eventlib.simulation.stage import Stage
from tests.saga.shop_runs import ROOT


def broken_by(stage: Stage, scenario: type[Scenario], seed: int) -> str | None:
    """Play a seed's schedule, and return the name of the invariant that is broken, if one is."""
    try:
        Schedule(stage, scenario(), 1 + seed % 3, drawn_from(Random(seed)), keep_story=False).play()
    except InvariantViolated as broken:
        return broken.violation.invariant.name
    return None


@contextmanager
def written_instead(file: str, before: str, after: str) -> Iterator[None]:
    """Let the functions of a module run as if its source had another text in one place."""
    path = str(ROOT / file)
    text = (ROOT / file).read_text(encoding="utf-8")
    assert text.count(before) == 1, f"{file}: {before!r}"
    changed = {code.co_qualname: code for code in _codes(compile(text.replace(before, after), path, "exec"))}
    gc.unfreeze()  # what is frozen is not listed
    right = {
        each: each.__code__
        for each in gc.get_objects()
        if type(each) is FunctionType and each.__code__.co_filename == path
    }
    gc.freeze()
    assert right, f"{file} is not loaded"
    for function, code in right.items():
        function.__code__ = changed[code.co_qualname]
    try:
        yield
    finally:
        for function, code in right.items():
            function.__code__ = code


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)
