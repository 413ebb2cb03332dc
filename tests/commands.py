"""Our commands, run in this process: as a person runs them, but for the second in which a process of their own starts."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path
from shutil import copytree
from subprocess import CompletedProcess

from eventlib.cli import run

Run = Callable[[Sequence[str]], int]

NO_PLUGINS = "-p no:cloudcoil -p no:schemathesis -W ignore::pytest.PytestAssertRewriteWarning"
"""For pytest in a process that a test starts: a project's own environment has not got them, and they take a second.

In a forked process (tests.forked), plugins are imported already; that their assertions are as they are is no news.
"""

_TYPES = Path(__file__).parents[1] / ".mypy_cache"


def known_types(place: Path) -> Path:
    """Copy what `make check` has found out of the library's types to a directory: mypy need not find it out again."""
    if _TYPES.is_dir():
        copytree(_TYPES, place, dirs_exist_ok=True)
    return place


def said(*arguments: str, by: Run = run) -> str:
    """Run a command that has to end well, `eventlib` unless told otherwise, and return what it prints."""
    done = ended(*arguments, by=by)
    assert done.returncode == 0, done.stderr
    return done.stdout


def ended(*arguments: str, by: Run = run) -> CompletedProcess[str]:
    """Run a command, and return how it has ended.

    It has a thread to itself, since a test may have an event loop already, and a command makes its own.
    """
    out, err = (TextIOWrapper(BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err), ThreadPoolExecutor(1) as alone:
        code = alone.submit(by, arguments).result()
    return CompletedProcess(arguments, code, *(each.buffer.getvalue().decode() for each in (out, err)))
