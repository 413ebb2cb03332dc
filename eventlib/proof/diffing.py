"""Compares what two versions of an application's code decide on a recorded log."""

import ast
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from eventlib.errors import WiringError
from eventlib.proof.decided import Code, differences_in
from eventlib.proof.differing import Diff, DifferenceGroup, Grouping, changed
from eventlib.proof.expected import Expected
from eventlib.proof.revisions import Lines, Repository
from eventlib.proof.sharing import Wanted

RECORDED = "what was recorded"
WORKING_TREE = "the working tree"


@dataclass(frozen=True, slots=True)
class Versions:
    """Two versions of the code: `base` is a revision, or None for what was recorded; `head` one, or the working tree."""

    base: str | None = None
    head: str | None = None

    @classmethod
    def of(cls, text: str | None) -> "Versions":
        """Read `BASE..HEAD`, or `BASE`. Raises: WiringError."""
        if not text:
            return cls()
        base, dots, head = text.partition("..")
        if not base or (dots and not head) or head.startswith("."):
            raise WiringError(
                f"{text!r} names no two revisions: write BASE..HEAD, or BASE for the working tree against it"
            )
        return cls(base, head or None)


def diff(url: str, directory: Path, app: str | None, versions: Versions, wanted: Wanted) -> Diff:
    """Decide a log's inputs by both versions, and return what differs.

    Each input follows from what was recorded, so that one change counts once; no effect runs, and nothing is written to
    the log. The dependencies are those that are installed here, for both.
    Raises: WiringError for a revision that there is not, code that cannot be imported, or a log that cannot be replayed.
    """
    repository, expected = Repository(directory), Expected.read(directory)
    for revision in (versions.base, versions.head):
        if revision is not None:
            repository.commit(revision)
    with ExitStack() as open_now:
        head = Code(directory, app, WORKING_TREE)
        if versions.head is not None:
            head = Code(open_now.enter_context(repository.code_of(versions.head)), app, versions.head)
        grouping = Grouping()
        place = Path(open_now.enter_context(TemporaryDirectory(prefix="eventlib-diff-")))
        (place / "head").mkdir()
        (place / "base").mkdir()
        report, effects = head.decide(url, wanted, place / "head")
        notes = report.notes
        if versions.base is not None:
            code = Code(open_now.enter_context(repository.code_of(versions.base)), app, versions.base)
            notes += tuple(_of_effects(code.decide(url, wanted, place / "base").effects, effects))
        for each in changed(differences_in(place / "base"), differences_in(place / "head")):
            grouping.add(each)
        groups = expected.mark(grouping.groups())
        if versions.base is not None:
            lines = repository.changed_lines(versions.base, versions.head)
            groups = tuple(_with_lines(head, url, groups, lines))
    return Diff(
        versions.base or RECORDED,
        versions.head or WORKING_TREE,
        report.events,
        report.decisions,
        groups,
        grouping.totals(),
        grouping.parked,
        expected.stale(groups),
        notes,
        report.damaged,
    )


def _of_effects(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    """Yield that effects have other code, if any have: no decision shows what that does."""
    changed = sorted(name for name in {**before, **after} if before.get(name) != after.get(name))
    if changed:
        yield (
            f"effects have other code, and their answers are taken from the log: {', '.join(changed)}; "
            "`eventlib prove in-flight` explores what they do"
        )


def _with_lines(code: Code, url: str, groups: Sequence[DifferenceGroup], lines: Lines) -> Iterator[DifferenceGroup]:
    """Yield the groups with the changed lines that run in their smallest decision."""
    run = code.lines(url, [group.example.difference for group in groups]) if groups and lines else [{} for _ in groups]
    for group, each in zip(groups, run, strict=True):
        found = [
            f"{name}:{line}{_function(code.directory / name, line)}"
            for name in sorted(each.keys() & lines.keys())
            for line in sorted(each[name] & lines[name])
        ]
        yield replace(group, lines=tuple(found))


def _function(file: Path, line: int) -> str:
    """Return ` in NAME`, of the innermost function or class that has a line; nothing for a line of the module."""
    name = ""
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            if first <= line <= (node.end_lineno or line):
                name = f" in {node.name}"  # walked from the outside in
    return name
