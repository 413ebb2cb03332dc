"""`python -m analytics archive`."""

import asyncio

from analytics.archiving import Archived, Progress, archive
from analytics.asking import refuse_missing
from analytics.commands.showing import JobProgress, ranges_json, ranges_table
from eventlib import command_line
from eventlib.errors import WiringError
from eventlib.ground.object_store import Place
from eventlib.log.archive.place import SCHEME
from eventlib.log.open import open_port


def archive_command(url: str, to: Place, *, as_json: bool) -> bool:
    """Archive new records, print the result, and return whether records had been dropped before they were archived."""
    if url.startswith((SCHEME, "memory:")):
        raise WiringError(f"--log {url}: only a log in a file or on Kafka can be archived")
    refuse_missing(url)
    with JobProgress("archiving", shown=not as_json) as progress:
        done = asyncio.run(_archived(url, to, lambda topic, *counts: progress(f"archiving {topic}", *counts)))
    if as_json:
        command_line.print_json([{"log": url, "archive": f"{SCHEME}{to}", **_as_json(done)}])
    else:
        _print(url, to, done)
    return bool(done.lost)


async def release_command(url: str) -> None:
    """Let a log's retention drop unarchived records, as before there was an archive."""
    refuse_missing(url)
    log = await open_port(url)
    try:
        await log.keep_unarchived(None)
    finally:
        await log.close()
    print(f"{url} no longer waits for an archive: retention drops old records, archived or not.")


async def _archived(url: str, to: Place, progress: Progress) -> Archived:
    log = await open_port(url)
    try:
        return await archive(log, to, progress)
    finally:
        await log.close()


def _as_json(done: Archived) -> dict[str, object]:
    return {
        "manifest": done.number,
        "records": done.records,
        "files": done.files,
        "merged": done.merged,
        "bytes": done.bytes,
        "retention_waits": done.held,
        "lost": [each.model_dump() for each in done.lost],
        "read": ranges_json(done.read),
        "seconds": round(done.seconds, 3),
    }


def _print(url: str, to: Place, done: Archived) -> None:
    if done.read:
        command_line.terminal().print(ranges_table(done.read))
        print()
    wrote = f"{command_line.counted(done.records, 'record')} in {command_line.counted(done.files, 'file')}, {done.bytes / 1e6:.1f} MB"
    merged = f"; {done.merged} small files were merged" if done.merged else ""
    print(f"Archived {wrote if done.records else 'nothing new'} in {done.seconds:.1f} s{merged}: {SCHEME}{to}")
    if not done.held:
        command_line.warn(f"{url} drops old records by its retention, archived or not: archive more often than that")
    for lost in done.lost:
        command_line.warn(
            f"{lost.topic}/{lost.partition}: offsets {lost.first} to {lost.end - 1} had been dropped before they were archived"
        )
