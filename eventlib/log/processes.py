"""Identifies an owner's process, and whether it is certainly dead: on the same machine by pid, elsewhere by lease."""

import os
import socket
from functools import cache
from pathlib import Path
from secrets import token_hex

_SEIZES = "-seizes"
_living = set[str]()
"""The live owners in this process."""


def new_owner(*, seizes: bool = False) -> str:
    """Return a name for an owner in this process: host/pid/start/pid scope/token."""
    pid = os.getpid()
    token = f"{token_hex(4)}{_SEIZES if seizes else ''}"
    owner = "/".join([socket.gethostname(), str(pid), started(pid), _pid_scope(), token])
    _living.add(owner)
    return owner


def give_up(owner: str) -> None:
    """Mark an owner in this process as dead."""
    _living.discard(owner)


def is_dead(owner: str) -> bool:
    """Whether an owner is certainly dead; False also if that cannot be determined from here."""
    match owner.split("/"):
        case [_, pid_text, then, pid_scope, _] if pid_scope == _pid_scope() and pid_text.isdecimal():
            pid = int(pid_text)
        case _:
            return False
    if pid == os.getpid() and then == started(pid):
        return owner not in _living
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # alive, as another user's process
    now = started(pid)
    return now != then and "" not in {now, then}


def is_seizer(owner: str) -> bool:
    """Whether an owner is one for a moment, beside those that run services."""
    return owner.endswith(_SEIZES)


def is_here(owner: str) -> bool:
    """Whether an owner's process can be checked from here: same machine, same boot, same container."""
    return owner.split("/")[3:4] == [_pid_scope()]


def described(owner: str) -> str:
    """Return an owner as text for people: its machine and process."""
    return ":".join(owner.split("/")[:2])


def started(pid: int) -> str:
    """Return a process's start time, which distinguishes a reused pid from its predecessor; '' when unknown."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return ""
    fields = stat[stat.rindex(b")") + 2 :].split()
    return "ended" if fields[0] in {b"Z", b"X"} else fields[19].decode()


@cache
def _pid_scope() -> str:
    """Return the scope in which pids are unique: this boot of this machine, and the container's pid namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = Path("/proc/self/ns/pid").readlink()
    except OSError:
        return socket.gethostname()
    return f"{boot}-{namespace.name}"
