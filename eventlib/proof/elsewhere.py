"""Calls a function of this library in a process that has the application's code of another directory."""

import atexit
import gc
import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn, ParamSpec, TypeVar

from eventlib.errors import EventlibError, TerminalError, WiringError
from eventlib.ground.short_process import look_for_cycles_seldom

P = ParamSpec("P")
T = TypeVar("T")

_NEEDED = ("eventlib.proof.by_revision", "eventlib.log.sqlite.log", "eventlib.codec.avro.format")
"""What nearly every question imports, with all that these do."""

_free = list["_Library"]()
"""Those that no thread of this process is asking."""


def elsewhere(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function of a module in a new process, which has imported this installation's library, and nothing else.

    Raises: what the function raises, if it is an error of this library; TerminalError when the process has died.
    """
    with TemporaryDirectory(prefix="eventlib-") as place:
        asked, answered = Path(place, "asked"), Path(place, "answered")
        asked.write_bytes(pickle.dumps((Path.cwd(), {**os.environ}, partial(call, *args, **kwargs))))
        library = _free_library()
        code = library.ask(place)
        _free.append(library)
        if code or not answered.exists():
            raise TerminalError(f"the process that ran the other code has died, with exit code {code}")
        found: T | EventlibError = pickle.loads(answered.read_bytes())  # noqa: S301  our own process has written it
    if isinstance(found, EventlibError):
        raise found
    return found


def refuse_other_code(directory: Path, module: str) -> None:
    """Refuse an application that was imported from elsewhere. Raises: WiringError."""
    file = getattr(sys.modules.get(module.partition(".")[0]), "__file__", None)
    if file is None or not Path(file).resolve().is_relative_to(directory.resolve()):
        raise WiringError(
            f"the application's module {module} comes from {file}, not from the code that is compared: it has to be "
            "importable from the directory of its pyproject.toml, or from src in it"
        )


class _Library:
    """A process that has imported the library, and forks itself for each question: to import takes longer than most answers."""

    def __init__(self) -> None:
        # -P: not even the working directory may stand for an installed package.
        command = [sys.executable, "-P", "-c", f"from {__name__} import main; main()"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603
        self._started_by = _interpreter()

    @property
    def is_as_good_as_new(self) -> bool:
        """Whether it is there, and one that is started now would be no other."""
        return self._started_by == _interpreter() and self._process.poll() is None

    def ask(self, place: str) -> int:
        """Have the question in a directory answered, and return the exit code."""
        assert self._process.stdin is not None  # noqa: S101  they are pipes
        assert self._process.stdout is not None  # noqa: S101  as above
        try:
            with suppress(BrokenPipeError):
                self._process.stdin.write(f"{place}\n".encode())
                self._process.stdin.flush()
            told = self._process.stdout.readline()
        except BaseException:
            self._process.terminate()
            self.end()
            raise
        return int(told) if told else self._process.wait()

    def end(self) -> None:
        """End it, unless it is another process's."""
        if self._started_by[0] == os.getpid():
            self._process.communicate()


def _interpreter() -> tuple[int, dict[str, str]]:
    """Return this process's id, and what it tells an interpreter that it starts."""
    return os.getpid(), {name: value for name, value in os.environ.items() if name.startswith("PYTHON")}


def _free_library() -> _Library:
    while _free:
        library = _free.pop()
        if library.is_as_good_as_new:
            return library
        library.end()
    return _Library()


@atexit.register
def end_libraries() -> None:
    """End the processes that wait for a question."""
    while _free:
        _free.pop().end()


def main() -> None:
    """Answer what another process of this installation asks, until it ends; each answer is a forked process's."""
    look_for_cycles_seldom()
    answering = list[int]()

    def end(*_: object) -> None:
        for pid in answering:
            os.kill(pid, signal.SIGKILL)
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, end)
    for module in _NEEDED:
        import_module(module)
    gc.freeze()
    for line in sys.stdin.buffer:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # until it is known whom to end
        pid = os.fork()
        if pid == 0:
            _answer_in(Path(line.decode().rstrip("\n")))
        answering.append(pid)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        answering.clear()
        print(code, flush=True)


def _answer_in(place: Path) -> NoReturn:
    """Answer the question in a directory, and end this process."""
    code = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        nothing = os.open(os.devnull, os.O_RDWR)
        for pipe in (0, 1):
            os.dup2(nothing, pipe)
        directory, environment, call = pickle.loads((place / "asked").read_bytes())  # noqa: S301  as above
        os.chdir(directory)
        os.environ.clear()
        os.environ.update(environment)
        (place / "answered").write_bytes(pickle.dumps(_answer(call)))
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001  nothing may go on here as the process that was forked
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _answer(call: Callable[[], object]) -> object:
    try:
        return call()
    except EventlibError as error:
        return _portable(error)


def _portable(error: EventlibError) -> EventlibError:
    with suppress(Exception):  # some errors cannot be made again
        return pickle.loads(pickle.dumps(error))  # type: ignore[no-any-return]  # noqa: S301
    return TerminalError(str(error))
