"""The same log in other places."""

from pathlib import Path

from analytics.cli import run
from tests.commands import said

ROOT = Path(__file__).resolve().parents[2]


def archived(url: str, place: Path) -> str:
    """Archive a log, and return the archive's URL."""
    said("archive", "--log", url, "--to", str(place), by=run)
    return f"archive:{place}"


def moved_to(url: str, source: str) -> str:
    """Copy a log to another URL, and return that."""
    said("copy", "--from", source, "--to", url, "--source-stays")
    return url
