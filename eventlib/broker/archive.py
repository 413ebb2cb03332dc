"""Kafka's classes as one Java has loaded and checked them: a node that maps them starts in half the time.

The first start with a Java makes the archive (JEP 350), in a run of its own that ends as soon as the node is up.
"""

import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from eventlib.broker.config import ClusterConfig
from eventlib.broker.layout import Layout
from eventlib.broker.node import Program
from eventlib.errors import BrokerFailed

_TAKES_S = 120.0


def with_class_archive(program: Program) -> Program:
    """Return the program with the archive of its Java, which is made when there is none yet.

    A Java that makes none, or a place that takes none, costs time at each start and nothing else.
    """
    archive = program.jars / f"classes-{program.java.build}.jsa"
    with suppress(OSError):
        if not archive.exists():
            _make(program, archive)
        if archive.stat().st_size:
            return replace(program, options=(f"-XX:SharedArchiveFile={archive}", *program.options))
    return program


def _make(program: Program, archive: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="classes-", dir=archive.parent) as scratch:
        made = Path(scratch) / archive.name
        with suppress(BrokerFailed):  # the cluster itself will say what is wrong
            _run_once(replace(program, options=(f"-XX:ArchiveClassesAtExit={made}", *program.options)), Path(scratch))
        made.touch()  # empty: this Java is not asked again
        made.replace(archive)


def _run_once(program: Program, directory: Path) -> None:
    layout = Layout.new(ClusterConfig())
    layout.write(directory)
    (node,) = layout.nodes(directory)
    try:
        node.format(program, ["-t", layout.cluster_id]).wait()
        node.launch(program)
        node.wait_until_up(time.monotonic() + _TAKES_S)
        node.stop(_TAKES_S)
    finally:
        node.kill()
