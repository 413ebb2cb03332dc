"""Who an owner is, and whether it is certainly dead: known at once on the same machine, otherwise its lease decides."""

import os
import socket
from functools import cache
from pathlib import Path
from secrets import token_hex

_living = set[str]()
"""The owners in this process that have not been given up."""


def new_owner() -> str:
    """Return a name for an owner in this process: host/pid/start/place/token."""
    pid = os.getpid()
    owner = "/".join([socket.gethostname(), str(pid), started(pid), _place(), token_hex(4)])
    _living.add(owner)
    return owner


def give_up(owner: str) -> None:
    """Let an owner in this process be dead from now on."""
    _living.discard(owner)


def is_dead(owner: str) -> bool:
    """Tell whether an owner is dead for certain; False also when that cannot be known from here."""
    match owner.split("/"):
        case [_, pid_text, then, place, _] if place == _place() and pid_text.isdecimal():
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
        pass  # it lives, as another user's
    now = started(pid)
    return now != then and "" not in {now, then}


def is_here(owner: str) -> bool:
    """Tell whether an owner's process can be asked for from here: same machine, same boot, same container."""
    return owner.split("/")[3:4] == [_place()]


def described(owner: str) -> str:
    """Return an owner for a person: its machine and process."""
    return ":".join(owner.split("/")[:2])


def started(pid: int) -> str:
    """Return when a process started, so that a pid given anew is not taken for its predecessor; '' when unknown."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return ""
    fields = stat[stat.rindex(b")") + 2 :].split()
    return "ended" if fields[0] in {b"Z", b"X"} else fields[19].decode()


@cache
def _place() -> str:
    """Return what pids are unique in: this boot of this machine, and the container's pid namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = Path("/proc/self/ns/pid").readlink()
    except OSError:
        return socket.gethostname()
    return f"{boot}-{namespace.name}"
