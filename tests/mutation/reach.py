"""Which lines of the mutated modules run, for a test or another detector."""

import sys
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from tests.mutation.mutants import ROOT, Mutant


@dataclass
class Reach:
    """The lines that ran, by file, and how long it took (s of CPU)."""

    lines: dict[str, set[int]] = field(default_factory=dict)
    cpu_s: float = 0.0
    failed: bool = False

    def has(self, mutant: Mutant) -> bool:
        """Return whether the changed statement ran; what is changed when its module is imported may be anywhere."""
        if not mutant.in_function:
            return True
        lines = self.lines.get(mutant.file, set())
        return not lines.isdisjoint(range(mutant.lines[0], mutant.lines[1] + 1))


@contextmanager
def traced(files: Collection[str]) -> Iterator[Reach]:
    """Note the lines of files that run in this process, given by their paths below the root."""
    found = Reach()
    places = {str(ROOT / file): found.lines.setdefault(file, set()) for file in files}

    def call(frame: FrameType, what: str, _: Any) -> Any:
        lines = places.get(frame.f_code.co_filename)
        if lines is None:
            return None
        if what == "line":
            lines.add(frame.f_lineno)
        return call

    began = time.process_time()
    threading.settrace(call)
    sys.settrace(call)
    try:
        yield found
    finally:
        sys.settrace(None)
        threading.settrace(None)
        found.cpu_s = time.process_time() - began
        found.lines = {file: lines for file, lines in found.lines.items() if lines}
