"""Downloads jars for a command: prints what, how large and where to, and shows progress."""

import sys
from pathlib import Path

from eventlib.cli._common.output import counted
from eventlib.cli._common.progress import ProgressBar
from eventlib.devtools.kafka.jars import JarSet, ivy
from eventlib.devtools.kafka.java import Java


def fetched(jars: JarSet, java: Java) -> Path:
    """Return the directory with the jars; the first time they are downloaded, with a line on stderr, and a bar on a terminal.

    Raises: BrokerFailed when the download fails.
    """
    directory = jars.default_place()
    if jars.is_at(directory):
        return directory
    ivy()
    files = counted(len(jars.pinned()), "file")
    sys.stderr.write(
        f"Downloading {jars.title} {jars.version} from Maven Central, once: {files}, {jars.size / 1e6:.1f} MB, to {directory}\n"
    )
    with ProgressBar(f"{jars.main}, bytes") as bar:
        return jars.fetched(java, directory, lambda arrived: bar.show(arrived, jars.size))
