"""Mutants: found in modules, named so that a name survives other changes of the file, and chosen by their names."""

import ast
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path

from bench.mutation.operators import sites

ROOT = Path(__file__).resolve().parents[2]
SEED = 24


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed program; `index` is the place's number in its module. `lines` are of the statement that is changed."""

    file: str
    scope: str
    operator: str
    before: str
    after: str
    nth: int
    index: int
    line: int
    lines: tuple[int, int]
    in_function: bool
    digest: str
    """What has to be the same for an old result to hold: the text of the function, or else of the module."""

    @property
    def name(self) -> str:
        """What tells it from others, whatever lines are added above it."""
        again = f" #{self.nth}" if self.nth else ""
        return f"{self.file}:{self.scope}: {self.operator}: {self.before} → {self.after}{again}"

    def tree(self) -> ast.Module:
        """Return the changed module."""
        tree = _parsed(self.file)
        sites(tree)[self.index].plant()
        return tree


@cache
def _digest(node: ast.AST) -> str:
    return _hash(ast.unparse(node))


def _hash(text: str) -> str:
    return blake2b(text.encode(), digest_size=6).hexdigest()


def _parsed(file: str) -> ast.Module:
    return ast.parse((ROOT / file).read_text(encoding="utf-8"), filename=str(ROOT / file))


def mutants_of(file: str) -> list[Mutant]:
    """Return all mutants of a module, given by its path below the root."""
    found, seen, module = list[Mutant](), Counter[tuple[str, ...]](), _parsed(file)
    for index, site in enumerate(sites(module)):
        context = site.context
        name = ".".join(context.scope), site.operator, site.before, site.after
        line = getattr(site.node, "lineno", context.lines[0])
        digest = _digest(context.function or module)
        found.append(Mutant(file, *name, seen[name], index, line, context.lines, context.in_function, digest))
        seen[name] += 1
    return found


def files_in(places: Iterable[str]) -> list[str]:
    """Return the files named, and the modules below the directories named, by their paths below the root."""
    return [
        path.relative_to(ROOT).as_posix()
        for place in places
        for path in ([ROOT / place] if place.endswith(".py") else sorted((ROOT / place).rglob("*.py")))
    ]


def mutants_in(places: Iterable[str]) -> list[Mutant]:
    """Return all mutants of files, and of the modules below directories."""
    return [mutant for file in files_in(places) for mutant in mutants_of(file)]


def sample(mutants: Sequence[Mutant], size: int) -> list[Mutant]:
    """Return a sample, chosen by names: a change of the sources replaces only the mutants of what has changed.

    A smaller one is the beginning of a larger one.
    """
    return sorted(mutants, key=lambda mutant: _hash(f"{SEED} {mutant.name}"))[:size]
