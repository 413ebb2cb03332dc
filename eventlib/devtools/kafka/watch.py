"""Run beside a process that has a cluster: when that process has ended, whatever is left of its cluster goes, too."""

import sys
from pathlib import Path

from eventlib.devtools.kafka.cluster import Cluster
from eventlib.devtools.kafka.layout import forget


def destroy_when_left(directory: Path) -> None:
    """Wait until standard input ends, since its other end is in the process that is watched; then destroy."""
    sys.stdin.buffer.read()
    cluster = Cluster.open(directory)
    if cluster is not None:
        cluster.destroy()
    forget(directory)


if __name__ == "__main__":
    destroy_when_left(Path(sys.argv[1]))
