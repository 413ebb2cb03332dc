"""Work shared out over forked processes, each of which does a part of it."""

import multiprocessing
import os
import pickle
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import TypeVar, cast

from eventlib.errors import TerminalError

T = TypeVar("T")
Work = Callable[[int], T]
"""Work that is told which part of it falls to this process, from 0."""


def cores() -> int:
    """Return how many processes can share work on this machine; 1 where none can be forked."""
    if "fork" not in multiprocessing.get_all_start_methods():
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_processes(work: Work[T], count: int) -> list[T]:
    """Do work in `count` parts, one of them here and each of the others in a forked process; return what each found.

    Call it while this process has no other thread and no log open. Raises: what the work raises; TerminalError when a
    process has died.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    others = [_forked(work, index) for index in range(1, count)]
    try:
        return [work(0), *(_found(told) for told, _ in others)]
    finally:
        for told, process in others:
            told.close()
            process.terminate()
            process.join()


def _forked(work: Work[T], index: int) -> tuple[Connection, BaseProcess]:
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_tell, args=(theirs, work, index), daemon=True)
    process.start()
    theirs.close()
    return mine, process


def _tell(out: Connection, work: Work[object], index: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who began this hears it too, and ends it
    try:
        found = work(index)
    except Exception as error:  # noqa: BLE001  whatever it is, it is raised where the work was begun
        try:
            out.send(pickle.loads(pickle.dumps(error)))  # noqa: S301  only to see whether it survives the way
        except Exception:  # noqa: BLE001  some errors cannot be pickled, or not be made again
            out.send(TerminalError(f"{type(error).__name__}: {error}"))
    else:
        out.send(found)


def _found(told: Connection) -> T:  # type: ignore[type-var]  # what comes through a pipe has no type
    try:
        found = told.recv()
    except EOFError as error:
        raise TerminalError("a process that shared the work has died: is there enough memory?") from error
    if isinstance(found, Exception):
        raise found
    return cast("T", found)
