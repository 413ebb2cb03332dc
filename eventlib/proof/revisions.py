"""Revisions of the application's repository: their code in a directory, which lines differ between two, and which run."""

import re
import subprocess
import sys
import tarfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, NamedTuple

import eventlib
from eventlib.errors import WiringError

_FILE = re.compile(r"^\+\+\+ (?:b/)?(.*?)\t?$")
_HUNK = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@")

Lines = Mapping[str, frozenset[int]]
"""Lines by file, relative to the application's directory."""


_OWN = f"{Path(eventlib.__file__).parent}/"


@contextmanager
def lines_run(directory: Path) -> Iterator[Mapping[str, set[int]]]:
    """Collect the lines of the application in a directory that run meanwhile: not those of this library or of packages."""
    found, root = defaultdict[str, set[int]](set), f"{directory}/"

    def trace(frame: FrameType, what: str, _: Any) -> Any:
        file = frame.f_code.co_filename
        if not file.startswith(root) or file.startswith(_OWN) or "site-packages" in file:
            return None
        if what == "line":
            found[file.removeprefix(root)].add(frame.f_lineno)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield found
    finally:
        sys.settrace(before)


class Commit(NamedTuple):
    """A commit: its id, who made it and when, and the first line of its message."""

    id: str
    author: str
    at: str
    subject: str


@dataclass(frozen=True, slots=True)
class Repository:
    """The git repository that an application's directory is in."""

    directory: Path

    def commit(self, revision: str) -> str:
        """Return the id of a revision's commit. Raises: WiringError when there is none."""
        return self._git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}").strip()

    def commits(self, good: str, bad: str) -> list[Commit]:
        """Return the commits after one revision up to another, oldest first; of merges, what they have merged into."""
        first, last = self.commit(good), self.commit(bad)
        told = self._git("log", "--first-parent", "--reverse", "--format=%H%x00%an%x00%cI%x00%s", f"{first}..{last}")
        return [Commit(*line.split("\0")) for line in told.splitlines()]

    @contextmanager
    def code_of(self, revision: str) -> Iterator[Path]:
        """Lay out a revision's code for as long as it is needed; yields the application's directory in it."""
        commit, top = self.commit(revision), Path(self._git("rev-parse", "--show-toplevel").strip())
        with TemporaryDirectory(prefix="eventlib-code-") as place:
            command = ["git", "-C", str(top), "archive", "--format=tar", commit]
            with (
                subprocess.Popen(command, stdout=subprocess.PIPE) as packing,  # noqa: S603
                tarfile.open(fileobj=packing.stdout, mode="r|") as packed,
            ):
                packed.extractall(place, filter="data")
            found = Path(place) / self.directory.resolve().relative_to(top.resolve())
            if not found.is_dir():
                raise WiringError(f"revision {revision} has no directory {self.directory.name} of the application yet")
            yield found

    def changed_lines(self, base: str, head: str | None) -> Lines:
        """Return the lines that a revision (None: the working tree) has otherwise than `base`.

        Where lines were only removed, it is the one before them.
        """
        found = defaultdict[str, set[int]](set)
        revisions = [base] if head is None else [base, head]
        file = ""
        options = ("--unified=0", "--no-color", "--no-ext-diff", "--relative")
        for line in self._git("diff", *options, *revisions, "--", "*.py").splitlines():
            if match := _FILE.match(line):
                file = match[1]
            elif match := _HUNK.match(line):
                first, count = int(match[1]), int(match[2] or 1)
                found[file].update(range(first, first + max(count, 1)))
        if head is None:
            for new in self._git("ls-files", "--others", "--exclude-standard", "--", "*.py").splitlines():
                found[new].update(range(1, 1 + (self.directory / new).read_bytes().count(b"\n")))
        return {name: frozenset(lines) for name, lines in found.items() if name != "/dev/null"}

    def _git(self, *arguments: str) -> str:
        command = ["git", "-c", "core.quotePath=false", "-C", str(self.directory), *arguments]
        try:
            done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603
        except FileNotFoundError as error:
            raise WiringError("git is not installed here: revisions cannot be compared without it") from error
        if done.returncode:
            what = (
                done.stderr.strip().removeprefix("fatal: ")
                or f"there is no revision {arguments[-1].partition('^')[0]!r}"
            )
            raise WiringError(f"{self.directory}: {what}")
        return done.stdout
