"""Runs that end at any of their steps as `kill -9` ends them: nothing that they do to files comes after it."""

import functools
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from analytics.stores import Place
from eventlib.ground.object_store import ObjectStore

STEPS: tuple[tuple[Any, str], ...] = (
    *((os, name) for name in ("link",)),
    *((shutil, name) for name in ("copyfile", "rmtree")),
    *((ObjectStore, name) for name in ("delete", "put", "replace", "upload")),
    *((Path, name) for name in ("mkdir", "rename", "replace", "symlink_to", "touch", "unlink", "write_text")),
)
"""All by which a version changes files itself; what Spark writes is between them."""


class Killed(BaseException):
    """The run has ended here."""


@contextmanager
def killed_at(step: int, out: Place) -> Iterator[list[str]]:
    """Let what runs in the context end before its n-th change of files in a directory; gives those that were done."""
    done = list[str]()

    def counted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def made(*args: Any, **options: Any) -> Any:
            if not any(str(out) in str(each) for each in args):
                return call(*args, **options)
            if len(done) >= step:
                raise Killed
            done.append(f"{name} {' '.join(str(each).removeprefix(str(out)) for each in args)}")
            return call(*args, **options)

        return made

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in STEPS:
            patch.setattr(owner, name, counted(name, getattr(owner, name)))
        yield done
