"""What was seen of a process at one moment: numbers by metric and labels, before anything of OpenTelemetry."""

from dataclasses import dataclass, field
from pathlib import Path

Labels = tuple[str, ...]
"""The values of a metric's labels, in the order of their declaration."""


@dataclass
class Look:
    """What was seen, by metric."""

    values: dict[str, dict[Labels, float]] = field(default_factory=dict)

    def add(self, metric: str, labels: Labels, value: float) -> None:
        """Add to a value."""
        found = self.values.setdefault(metric, {})
        found[labels] = found.get(labels, 0) + value


def size_of(path: Path) -> int:
    """Return what a file, with those that go with it, or a directory takes on the disk, in bytes."""
    files = path.rglob("*") if path.is_dir() else path.parent.glob(f"{path.name}*")
    return sum(each.stat().st_size for each in files if each.is_file() and each.parent.name != f"{path.name}.state")
