"""A JAVA_HOME for Spark: its java starts without an option of Spark's that a small Java refuses."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from analytics.scratch import scratch
from eventlib.devtools.kafka.java import find_java

# Spark's launcher adds a module that a small Java may lack; the vectorised BLAS that it is for is not used here.
_WRAPPER = """#!/bin/sh
for argument; do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def java_home() -> Path:
    """Return a JAVA_HOME, valid while this process lives, whose java omits options that this Java lacks.

    Raises: BrokerFailed when there is no Java.
    """
    return java_home_in(scratch())


def java_home_in(home: Path) -> Path:
    """Create such a JAVA_HOME in a directory, and return it. Raises: BrokerFailed when there is no Java."""
    wrapper = home / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text(_WRAPPER.format(java=find_java("Spark").executable.resolve()))
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return home


@contextmanager
def java_for_spark(home: Path) -> Iterator[None]:
    """Set JAVA_HOME while Spark starts: processes started later need the machine's own."""
    before = os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = str(home)
    try:
        yield
    finally:
        if before is None:
            del os.environ["JAVA_HOME"]
        else:
            os.environ["JAVA_HOME"] = before
