"""Local disks: free space, and whether this user may write."""

import os
import shutil
from pathlib import Path

from eventlib.operations.doctor.finding import Diagnosis, error, fine, warning

_TIGHT_BYTES = 1 << 30
_FULL_BYTES = 100 << 20
_REMOTE = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "ceph", "glusterfs", "lustre", "afs"}
_MOUNTS = Path("/proc/self/mounts")


def examine_stores(state_dir: str) -> Diagnosis:
    """Check the directory of local stores: caches, which are rebuilt from the changelog when they are lost."""
    place = Path(state_dir).absolute()
    there = _nearest(place)
    if not os.access(there, os.W_OK | os.X_OK):
        return error(
            "local stores",
            f"{place} cannot be written by this user",
            "give this user the directory, or name another with EVENTLIB_STATE_DIR",
        )
    return examine_room("local stores", there) or fine("local stores", f"{place}: {_gigabytes(there)} free")


def examine_room(check: str, place: Path) -> Diagnosis | None:
    """Return a finding when a disk has little free space, None when it has enough."""
    free = shutil.disk_usage(place).free
    if free >= _TIGHT_BYTES:
        return None
    what = f"the disk of {place} has {free / 1e6:,.0f} MB left"
    remedy = "free some space: without any, appends fail until there is some; nothing is half-written"
    return error(check, what, remedy) if free < _FULL_BYTES else warning(check, what, remedy)


def network_file_system(place: Path) -> str | None:
    """Return the kind of a network file system, None for a local one."""
    try:
        mounts = [line.split() for line in _MOUNTS.read_text(encoding="utf-8").splitlines()]
    except OSError:
        return None
    found = [(Path(at.replace("\\040", " ")), kind) for _, at, kind, *_ in mounts]
    holding = [(at, kind) for at, kind in found if at in {place, *place.parents}]
    kind = max(holding, key=lambda each: len(each[0].parts), default=(place, ""))[1]
    return kind if kind in _REMOTE else None


def _nearest(place: Path) -> Path:
    return next(each for each in (place, *place.parents) if each.exists())


def _gigabytes(place: Path) -> str:
    return f"{shutil.disk_usage(place).free / 1e9:,.1f} GB"
