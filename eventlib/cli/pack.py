"""`eventlib pack`: the rows of an SQLite log as compressed batches."""

from dataclasses import asdict
from typing import Annotated

from eventlib.cli._common import output
from eventlib.cli._common.options import JsonOption, LogOptions, flag, path_of
from eventlib.cli._common.output import counted
from eventlib.cli._common.progress import ProgressBar
from eventlib.errors import WiringError
from eventlib.operations.packing import PackedFile, pack_file


def pack(
    log_options: LogOptions,
    shrink: Annotated[
        bool, flag("--shrink", "Then give the free space back to the disk; nothing is appended meanwhile.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Pack an SQLite log's records as compressed batches; services may run.

    For logs of an older release, and for those that many small transactions
    have written. Each record stays what it is, with its offset and its
    checksum. When it is interrupted, run it again: it continues. A log of an
    older format has the newest one from then on, which older releases refuse:
    update all processes first.

    A record without a checksum, or one that does not match it, is left as it
    is (`eventlib repair`).

    [dim]Examples:[/dim]
      eventlib pack
      eventlib pack --shrink
    """
    url = log_options.url
    path = path_of(url, "a log that can be packed")
    if not path.is_file():
        raise WiringError(f"there is no log at {path}: name one with --log")
    with ProgressBar("packing", quiet=as_json) as bar:
        found = pack_file(path, shrink=shrink, progress=bar.add)
    if as_json:
        output.print_json([asdict(found)])
    else:
        _print(found)


def _print(found: PackedFile) -> None:
    print(f"{counted(found.packed, 'record')} packed; {counted(found.left, 'record')} left in rows of their own.")
    print(
        f"The file has {found.bytes:,} bytes, {found.free_bytes:,} of them free; before, it had {found.bytes_before:,}."
    )
