"""Processes of Python that begin with the library imported, which saves each up to two seconds of imports.

A server imports once, and forks for each process that a test starts: one like any other, the test's own child, with its
environment, directory, pipes, signals and end. The server has neither threads nor clients, which no fork would survive.
"""

import atexit
import ctypes
import gc
import importlib
import io
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).parents[1]
IMPORTED = (
    "eventlib.cli.app", "eventlib.cli.run_services", "eventlib.log.sqlite.log", "eventlib.replay", "eventlib.runtime",
    "eventlib.search.saga_search", "eventlib.sql.asking", "eventlib.simulation.search", "pytest", "services.demo",
    "services.importing", "services.order.api", "services.simulation.scenario", "uvicorn.protocols.http.httptools_impl",
)  # fmt: skip
"""Where most commands begin; what else they need they import themselves."""

SELDOM = 50_000, 50, 1_000
"""When the collector of cycles looks in processes of tests: as in those that run services."""

_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of Linux: whoever loses its parent becomes the child of this process."""
_MOST_B = 1 << 20


class Popen(subprocess.Popen[Any]):
    """`subprocess.Popen` of `eventlib …`, `python -m …`, `python -c …` or `python FILE …`, but for the imports.

    Elsewhere than on Linux it is that of the standard library.
    """

    if sys.platform == "linux":

        def _execute_child(self, args: Sequence[object], *options: Any) -> None:  # what __init__ calls, pipes in hand
            cwd, env, pipes = options[4], options[5], options[9:15]
            streams = [own if given == -1 else given for own, given in enumerate((pipes[0], pipes[3], pipes[5]))]
            environment, command = dict(os.environ if env is None else env), [*map(str, args)]
            if command[0] == "env":
                given = [each for each in command[1:] if "=" in each.partition("/")[0]]
                environment |= dict(each.split("=", 1) for each in given)
                command = command[1 + len(given) :]
            self.pid = _server().start(command, Path(cwd or Path.cwd()), environment, streams)
            self._child_created = True
            self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]  # as what it stands for does


def run(
    command: Sequence[object],
    *,
    check: bool = False,
    capture_output: bool = False,
    input: str | None = None,  # noqa: A002  as the standard library calls it
    timeout: float | None = None,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, as `subprocess.run` does; what it prints is text."""
    if input is not None:
        options["stdin"] = subprocess.PIPE
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Popen([*map(str, command)], **{"text": True, **options}) as process:
        try:
            out, err = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess[str](process.args, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


class _Server:
    def __init__(self) -> None:
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        here.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MOST_B)
        with there:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.forked", str(there.fileno())],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                pass_fds=[there.fileno()],
            )
        self._channel = here
        self._alone = threading.Lock()

    def start(self, command: list[str], directory: Path, environment: dict[str, str], streams: list[int]) -> int:
        """Start a process, and return its id: it is this process's child."""
        asked = json.dumps([command, str(directory), environment]).encode()
        prctl = ctypes.CDLL(None).prctl
        with self._alone:
            prctl(_SUBREAPER, 1, 0, 0, 0)
            try:
                socket.send_fds(self._channel, [asked], streams)
                pid = int(self._channel.recv(_MOST_B))
                assert self._channel.recv(_MOST_B) == b"orphaned"
            finally:
                prctl(_SUBREAPER, 0, 0, 0, 0)
        return pid

    def end(self) -> None:
        self._channel.close()
        self._process.wait()


_servers = list[_Server]()


def _server() -> _Server:
    if not _servers:
        _servers.append(_Server())
    return _servers[0]


@atexit.register
def end_server() -> None:
    """End the server; a process that is started afterwards has another one."""
    while _servers:
        _servers.pop().end()


def _serve(channel: socket.socket) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background, a shell has it ignored
    del sys.path[0]  # the directory of `-m`: each command has another one
    for name in IMPORTED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*SELDOM)
    while True:
        asked, streams, _, _ = socket.recv_fds(channel, _MOST_B, 3)
        if not asked:
            return
        between = os.fork()
        if between == 0:
            _orphan(channel, asked, streams)
        os.waitpid(between, 0)
        for stream in streams:
            os.close(stream)
        channel.send(b"orphaned")


def _orphan(channel: socket.socket, asked: bytes, streams: list[int]) -> NoReturn:
    parent = os.getpid()
    if pid := os.fork():
        channel.send(b"%d" % pid)
        os._exit(0)
    channel.close()
    while os.getppid() == parent:  # what a process looks at may be who its parent is
        time.sleep(0.000_2)
    command, directory, environment = json.loads(asked)
    _become(command, Path(directory), environment, streams)


def _become(command: list[str], directory: Path, environment: dict[str, str], streams: list[int]) -> NoReturn:
    code = 1
    try:
        _take_streams(streams)
        os.chdir(directory)
        os.environ.clear()
        os.environ.update(environment)
        code = _run(command, directory)
    except KeyboardInterrupt:
        traceback.print_exc()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:  # noqa: BLE001  as the interpreter does
        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001  as the interpreter does
        atexit._run_exitfuncs()  # noqa: SLF001  as above
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def _take_streams(streams: list[int]) -> None:
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), "utf-8")
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)), "utf-8")
    sys.stderr = io.TextIOWrapper(io.BufferedWriter(io.FileIO(2, "w", closefd=False)), "utf-8", line_buffering=True)


def _run(command: list[str], directory: Path) -> int:
    program, *arguments = command
    way = "eventlib" if Path(program).name == "eventlib" else arguments[0]
    begins = {"eventlib": [], "-m": [str(directory)], "-c": [""]}.get(way, [str(Path(way).absolute().parent)])
    own = [*begins, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    sys.path[:0] = own
    _forget_modules({directory, *map(Path, own)})
    sys.argv = [*command] if way == "eventlib" else ["-c", *arguments[2:]] if way == "-c" else arguments
    try:
        if way == "eventlib":
            from eventlib.cli import run as run_command

            return run_command(arguments)
        if way == "-m":
            sys.argv = arguments[1:]
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        elif way == "-c":
            names = {"__name__": "__main__", "__builtins__": __builtins__}
            exec(compile(arguments[1], "<string>", "exec"), names)  # noqa: S102  what the interpreter does with it
        else:
            runpy.run_path(way, run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _forget_modules(directories: set[Path]) -> None:
    """Forget what was imported from elsewhere under a name that one of the directories has."""
    for name in [each for each in sys.modules if each.partition(".")[0] == "tests"]:
        del sys.modules[name]
    for directory in directories:
        own = (
            {each.name.removesuffix(".py"): each.resolve() for each in directory.iterdir()}
            if directory.is_dir()
            else {}
        )
        for name, module in [*sys.modules.items()]:
            here, file = own.get(name.partition(".")[0]), getattr(module, "__file__", None)
            if here is not None and file is not None and not Path(file).resolve().is_relative_to(here):
                del sys.modules[name]
    importlib.invalidate_caches()


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
