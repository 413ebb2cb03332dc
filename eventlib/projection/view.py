"""What a user declares: which topics to read, which tables to keep, and what each record means for them."""

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from eventlib.log.port import Record

Apply = Callable[[sqlite3.Connection, Record, Any], None]


@dataclass(frozen=True)
class View:
    """Tables that follow from topics: `View("points", topics=["orders"], tables="CREATE TABLE …", apply=apply)`.

    `apply(db, record, event)` writes what one record means into the tables; it commits nothing itself, and does
    nothing else, since it is called again for the same record when its transaction did not happen. `event` is the
    event, or the state of a changelog; None for a tombstone and for a record that cannot be read (its bytes are in
    `record.value`), and for every record of a topic in `undecoded`: these are read beside `topics`, and cost less.
    Of a compacted topic only the newest records of each key are sure to come, as for every reader of it.
    Another `version`, other topics or other tables begin the file anew; so give `apply` another version when it
    changes.
    """

    name: str
    topics: Sequence[str]
    tables: str
    apply: Apply
    undecoded: Sequence[str] = ()
    version: int = 1

    @property
    def inputs(self) -> tuple[str, ...]:
        """Every topic that is read."""
        return tuple(dict.fromkeys([*self.topics, *self.undecoded]))

    @property
    def fingerprint(self) -> str:
        """What tells this declaration from another one of the same name (16 hex digits)."""
        declared = repr((self.name, sorted(self.topics), sorted(self.undecoded), self.tables, self.version))
        return blake2b(declared.encode(), digest_size=8).hexdigest()
