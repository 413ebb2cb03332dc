"""An archive of Spark's classes, which Java maps into memory instead of loading each from its jar: 4 s of CPU for each start.

It is kept beside the connectors, by what Java and what jars it is of. Making it takes what seven starts save, so the tenth
session that finds none makes it, in a process of its own: who starts Spark a few times is not kept waiting.
"""

import json
import os
import subprocess
import sys
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import pyspark

from analytics.connectors import AVRO
from eventlib.devtools.kafka.java import Java
from eventlib.errors import EventlibError
from eventlib.ground.durable import alone

SILENT = "-Xlog:disable -Xlog:all=error:stderr"
"""Else Java says on standard output that an archive does not fit."""

TAKES_S = 300
_MAKES = "analytics.class_archive_making"
_KEPT = 2  # at most: one takes 160 MB

MADE_AT = 10
"""The session that makes it."""


def option_for(java: Java) -> str:
    """Return the JVM's option for the archive; nothing while there is none, which costs time at each start and nothing else."""
    with suppress(OSError, EventlibError, subprocess.SubprocessError):
        archive = AVRO.default_place().with_name("spark-classes") / f"{_key(java)}.jsa"
        if not archive.exists():
            _prepare(archive)
        if archive.exists() and archive.stat().st_size:
            archive.touch()
            return f"-XX:SharedArchiveFile={archive} {SILENT}"
    return ""


def _key(java: Java) -> str:
    """Return what Java compares as well: itself, and the place, the size and the time of each jar."""
    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    jars = [(str(jar), jar.stat().st_size, jar.stat().st_mtime_ns) for jar in sorted(home.glob("jars/*.jar"))]
    return f"{java.build}-{sha256(json.dumps(jars).encode()).hexdigest()[:12]}"


def _prepare(archive: Path) -> None:
    """Note that a session has started; make the archive if enough have."""
    with alone(archive.parent, "prepares Spark's classes in"):
        started = archive.with_suffix(".started")
        with started.open("ab") as counted:  # a byte for each
            counted.write(b".")
        if started.stat().st_size < MADE_AT:
            return
        with TemporaryDirectory(dir=archive.parent) as scratch:
            made = Path(scratch) / archive.name
            command = [sys.executable, "-m", _MAKES, str(made)]
            with suppress(subprocess.SubprocessError):
                subprocess.run(command, check=False, capture_output=True, timeout=TAKES_S)  # noqa: S603  a module of ours
            made.touch()  # empty: this Java is not asked again
            made.replace(archive)
        started.unlink()
        for old in sorted(archive.parent.glob("*.jsa"), key=lambda path: path.stat().st_mtime)[:-_KEPT]:
            old.unlink()
