"""Packs a log's file as compressed batches."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from eventlib.log.sqlite.log import SqliteLog
from eventlib.log.sqlite.pack import Packed


@dataclass(frozen=True, slots=True)
class PackedFile:
    """How many records were packed, how many are left in rows of their own, and the file's size."""

    packed: int
    left: int
    bytes_before: int
    bytes: int
    free_bytes: int


def pack_file(path: Path, *, shrink: bool, progress: Callable[[int], None] = lambda _: None) -> PackedFile:
    """Pack an SQLite log's file; `shrink` gives its free space back to the disk. Raises: the log's errors."""
    before = path.stat().st_size
    done, free_bytes = asyncio.run(_pack(path, shrink=shrink, progress=progress))
    return PackedFile(done.packed, done.seen - done.packed, before, path.stat().st_size, free_bytes)


async def _pack(path: Path, *, shrink: bool, progress: Callable[[int], None]) -> tuple[Packed, int]:
    log = await SqliteLog.open(path)
    try:
        done = await log.pack(progress)
        if shrink:
            await log.shrink()
        return done, await log.free_bytes()
    finally:
        await log.close()
