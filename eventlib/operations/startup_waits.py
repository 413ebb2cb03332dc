"""Which processes on this machine wait at their start: each keeps a note in a file beside its local stores."""

import json
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from eventlib.ground.private_files import create_private, make_private_directory
from eventlib.log.processes import described, give_up, is_dead, new_owner
from eventlib.runtime.config import RuntimeConfig
from eventlib.state.open import store_directory
from eventlib.values import from_ms, now_ms

_log = logging.getLogger(__name__)
_DIRECTORY = ".waiting"
STATE_DIR = RuntimeConfig().state_dir
"""The default directory of local stores."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A waiting process, as machine and pid: what it runs, since when it waits, and for what."""

    process: str
    runs: str
    since: datetime
    reason: str

    @property
    def sentence(self) -> str:
        """Return it as a complaint."""
        return f"{self.runs} ({self.process}): waits for {self.reason}"


class WaitingNote:
    """A process's own note, as `Startup.on_change` needs it; it is deleted when nothing is waited for."""

    def __init__(self, log_url: str, state_dir: str, runs: str) -> None:
        directory = store_directory(log_url, state_dir)
        self._owner = new_owner()
        name = self._owner.rpartition("/")[2]
        self._path = None if directory is None else directory / _DIRECTORY / f"process-{name}.json"
        self._runs = runs
        self._since_ms = 0

    def __call__(self, reason: str) -> None:
        """Write what is waited for; a failed write is only logged."""
        if self._path is None:
            return
        try:
            self._write(self._path, reason)
        except OSError as error:
            _log.info("cannot write the note that this process waits, for `eventlib status`: %s", error)

    def close(self) -> None:
        """Delete the note."""
        self("")
        give_up(self._owner)

    def _write(self, path: Path, reason: str) -> None:
        if not reason:
            self._since_ms = 0
            path.unlink(missing_ok=True)
            with suppress(OSError):  # others wait as well, or there never was one
                path.parent.rmdir()
            return
        self._since_ms = self._since_ms or now_ms()
        make_private_directory(path.parent)
        note = {"owner": self._owner, "runs": self._runs, "since_ms": self._since_ms, "reason": reason}
        draft = path.with_suffix(".new")
        create_private(draft)
        draft.write_text(json.dumps(note), encoding="utf-8")
        draft.replace(path)


def waiting_here(log_url: str, state_dir: str) -> Sequence[Waiting]:
    """Return the processes on this machine that run on a log and wait, the longest wait first."""
    directory = store_directory(log_url, state_dir)
    found = list[Waiting]()
    for path in [] if directory is None else sorted((directory / _DIRECTORY).glob("*.json")):
        with suppress(OSError, ValueError, LookupError, TypeError):  # deleted meanwhile, or truncated by a full disk
            note = json.loads(path.read_text(encoding="utf-8"))
            if not is_dead(note["owner"]):
                since = from_ms(note["since_ms"])
                found.append(Waiting(described(note["owner"]), str(note["runs"]), since, str(note["reason"])))
    return sorted(found, key=lambda each: each.since)
