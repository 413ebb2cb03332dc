"""Calls a function of this library in a process that has the application's code of another directory."""

import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ParamSpec, TypeVar

from eventlib.errors import EventlibError, TerminalError, WiringError

P = ParamSpec("P")
T = TypeVar("T")


def elsewhere(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function of a module in a new process, which imports this installation's library, and nothing else yet.

    Raises: what the function raises, if it is an error of this library; TerminalError when the process has died.
    """
    with TemporaryDirectory(prefix="eventlib-") as place:
        asked, answered = Path(place, "asked"), Path(place, "answered")
        asked.write_bytes(pickle.dumps((call, args, kwargs)))
        # -P: not even the working directory may stand for an installed package.
        command = [sys.executable, "-P", "-c", f"from {__name__} import main; main()", str(asked), str(answered)]
        done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)  # noqa: S603
        if done.returncode or not answered.exists():
            raise TerminalError(f"the process that ran the other code has died, with exit code {done.returncode}")
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


def _answer(asked: Path) -> object:
    call, args, kwargs = pickle.loads(asked.read_bytes())  # noqa: S301  our own process has written it
    try:
        return call(*args, **kwargs)
    except EventlibError as error:
        return _portable(error)


def _portable(error: EventlibError) -> EventlibError:
    with suppress(Exception):  # some errors cannot be made again
        return pickle.loads(pickle.dumps(error))  # type: ignore[no-any-return]  # noqa: S301
    return TerminalError(str(error))


def main() -> None:
    """Answer what another process of this installation has asked."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    Path(sys.argv[2]).write_bytes(pickle.dumps(_answer(Path(sys.argv[1]))))
