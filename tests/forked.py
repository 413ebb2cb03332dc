"""Python's commands in processes that begin with the library imported, which saves each a second of imports.

A server of them imports once, and forks for each command: a process like any other, with its own environment, directory,
output and end. It has neither threads nor clients of tests, which no fork would survive.
"""

import importlib
import io
import json
import os
import runpy
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).parents[1]
IMPORTED = (
    "eventlib.cli.app", "eventlib.log.sqlite.log", "eventlib.replay", "eventlib.runtime", "eventlib.search.saga_search",
    "eventlib.sql.asking", "services.demo", "services.simulation.scenario",
)  # fmt: skip
"""Where most commands of a page begin; what else they need they import themselves."""


class Forks:
    """Runs `eventlib …`, `python -m …` and `python FILE …`."""

    def __init__(self, server: "subprocess.Popen[str]") -> None:
        self._server = server

    def run(self, command: Sequence[str], directory: Path, environment: Mapping[str, str], output: Path) -> int:
        """Run a command, write all that it prints into a file, and return its exit code; below 0, the signal's number."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        asked = [list(command), str(directory), dict(environment), str(output)]
        self._server.stdin.write(f"{json.dumps(asked)}\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline())


@contextmanager
def forks() -> Iterator[Forks]:
    """Run a server of forks; at the end it is gone."""
    command = [sys.executable, "-m", "tests.forked"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        yield Forks(server)


def _serve() -> None:
    del sys.path[0]  # the directory of `-m`: each command has another one
    for name in IMPORTED:
        importlib.import_module(name)
    for line in sys.stdin:
        command, directory, environment, output = json.loads(line)
        child = os.fork()
        if child == 0:
            _become(command, Path(directory), environment, output)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")
        sys.stdout.flush()


def _become(command: Sequence[str], directory: Path, environment: Mapping[str, str], output: str) -> NoReturn:
    code = 1
    try:
        _take_streams(output)
        os.chdir(directory)
        os.environ.clear()
        os.environ.update(environment)
        code = _run(command, directory)
    except BaseException:  # noqa: BLE001  as the interpreter does
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _take_streams(output: str) -> None:
    into, nothing = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), os.open(os.devnull, os.O_RDONLY)
    for stream, file in ((0, nothing), (1, into), (2, into)):
        os.dup2(file, stream)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), "utf-8")
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)), "utf-8")
    sys.stderr = io.TextIOWrapper(io.BufferedWriter(io.FileIO(2, "w", closefd=False)), "utf-8", line_buffering=True)


def _run(command: Sequence[str], directory: Path) -> int:
    _forget_modules(directory)
    program, *arguments = command
    try:
        if program == "eventlib":
            from eventlib.cli import run

            sys.argv = [*command]
            return run(arguments)
        if arguments[0] == "-m":
            sys.argv = arguments[1:]
            sys.path.insert(0, str(directory))
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = arguments
            sys.path.insert(0, str(Path(arguments[0]).absolute().parent))
            runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _forget_modules(directory: Path) -> None:
    """Forget what was imported from elsewhere under a name that the directory has."""
    own = {each.name.removesuffix(".py"): each.resolve() for each in directory.iterdir()}
    for name, module in [*sys.modules.items()]:
        here, file = own.get(name.partition(".")[0]), getattr(module, "__file__", None)
        if here is not None and file is not None and not Path(file).resolve().is_relative_to(here):
            del sys.modules[name]
    importlib.invalidate_caches()


if __name__ == "__main__":
    _serve()
