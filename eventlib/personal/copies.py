"""Copies of a key store: one SQLite file each, whatever the store is kept in."""

import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

from eventlib.errors import WiringError
from eventlib.personal.sqlite_store import SqliteKeyStore
from eventlib.personal.store import KeyRow, KeyStore, destroyed, new_row


def back_up(store: KeyStore, to: Path) -> None:
    """Copy a store to a new file; the keys in it stay wrapped. Raises: WiringError when the file exists."""
    if to.exists():
        raise WiringError(f"{to} exists: name a new file, and remove older copies, which have keys destroyed since")
    with SqliteKeyStore(to, create=True) as copy:
        copy.replace_all(store.ring(), store.rows())
    with closing(sqlite3.connect(to)) as file:  # so that the copy is one file, also while it is read
        file.execute("PRAGMA journal_mode=DELETE")


def restore(store: KeyStore, copy: Path, erased: Mapping[str, KeyRow | None]) -> int:
    """Put the keys of a copy in the place of a store's; return how many of them were erased by that.

    `erased` has who was erased since; a row that it has for one stands for them, so that what was encrypted with their key
    reads as erased, although the copy does not know it. Guarantee: they have no key in the store at any time.
    Raises: WiringError when there is no copy; LogCorrupt for one that cannot be read.
    """
    erased_again, missing, now_ms = 0, dict(erased), time.time_ns() // 1_000_000

    def rows(source: KeyStore) -> Iterator[KeyRow]:
        nonlocal erased_again
        for row in source.rows():
            if row.subject in missing:
                erased_again += row.erased_ms is None
                yield missing.pop(row.subject) or destroyed(row, now_ms)
            else:
                yield row
        for subject, row_of_store in missing.items():
            yield row_of_store or destroyed(new_row(subject, had_key=False), now_ms)

    with SqliteKeyStore(copy, create=False) as source:
        store.replace_all(source.ring(), rows(source))
    return erased_again
