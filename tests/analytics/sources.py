"""The same log in other places."""

import subprocess
import sys
from pathlib import Path

from tests.saga.shop_runs import EVENTLIB

ROOT = Path(__file__).resolve().parents[2]


def archived(url: str, place: Path) -> str:
    """Archive a log, and return the archive's URL."""
    command = [sys.executable, "-m", "analytics", "archive", "--log", url, "--to", str(place)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=600)
    return f"archive:{place}"


def moved_to(url: str, source: str) -> str:
    """Copy a log to another URL, and return that."""
    command = [EVENTLIB, "copy", "--from", source, "--to", url, "--source-stays"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=300)
    return url
