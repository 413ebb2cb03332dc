"""Which of the statements that mutants change run, for a test or another detector."""

import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

from bench.mutation.mutants import ROOT, Mutant

Lines = Mapping[str, Set[int]]
"""Lines by file, which is a path below the root."""


@dataclass
class Reach:
    """The lines that ran, by file, and how long it took (s of CPU, and of the clock)."""

    lines: dict[str, set[int]] = field(default_factory=dict)
    cpu_s: float = 0.0
    clock_s: float = 0.0
    failed: bool = False

    def has(self, mutant: Mutant) -> bool:
        """Return whether the changed statement ran; what is changed when its module is imported may be anywhere."""
        if not mutant.in_function:
            return True
        lines = self.lines.get(mutant.file, set())
        return not lines.isdisjoint(range(mutant.lines[0], mutant.lines[1] + 1))


def lines_of(mutants: Iterable[Mutant]) -> Lines:
    """Return the lines that mutants change."""
    found = dict[str, set[int]]()
    for mutant in mutants:
        found.setdefault(mutant.file, set()).update(range(mutant.lines[0], mutant.lines[1] + 1))
    return found


@contextmanager
def traced(wanted: Lines) -> Iterator[Reach]:
    """Note which of the wanted lines run in this process; what has none of them, or no more, runs untraced."""
    found = Reach()
    tracer = _Tracer(wanted, found.lines)
    cpu_began, clock_began = time.process_time(), time.monotonic()
    threading.settrace(tracer.call)
    sys.settrace(tracer.call)
    try:
        yield found
    finally:
        sys.settrace(None)
        threading.settrace(None)
        found.cpu_s = time.process_time() - cpu_began
        found.clock_s = time.monotonic() - clock_began
        found.lines = {file: lines for file, lines in found.lines.items() if lines}


class _Tracer:
    def __init__(self, wanted: Lines, found: dict[str, set[int]]) -> None:
        self._wanted = {str(ROOT / file): (lines, found.setdefault(file, set())) for file, lines in wanted.items()}
        self._left: dict[int, tuple[CodeType, set[int]]] = {}
        """By the code's `id`, since a code's hash is that of all that is in it; the code is kept, or its `id` is free."""

    def call(self, frame: FrameType, what: str, _: Any) -> Any:  # noqa: ARG002
        code = frame.f_code
        known = self._left.get(id(code))
        if known is None:
            known = self._left[id(code)] = code, self._left_of(code)
        return self._line if known[1] else None

    def _line(self, frame: FrameType, what: str, _: Any) -> Any:
        if what == "line":
            code = frame.f_code
            left = self._left[id(code)][1]
            if frame.f_lineno in left:
                left.discard(frame.f_lineno)
                self._wanted[code.co_filename][1].add(frame.f_lineno)
            frame.f_trace_lines = bool(left)
        return self._line

    def _left_of(self, code: CodeType) -> set[int]:
        wanted = self._wanted.get(code.co_filename)
        return set() if wanted is None else {line for _, _, line in code.co_lines() if line is not None} & wanted[0]
