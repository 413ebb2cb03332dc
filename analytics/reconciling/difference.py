"""The findings of a reconciliation: where the live state differs from the log."""

from typing import NamedTuple

from pyspark.sql import types as t


class Difference(NamedTuple):
    """A field of a key that differs from the log, at a position that both sides have.

    `where` is the live source (`store`, `changelog`, `HTTP API`, `gateway`; `log` for an incomplete history), `about` the
    decider, table or task. `field` is empty for a key that one side does not know at all; None means that a side has no
    value.
    """

    where: str
    about: str
    key: str
    field: str
    live: str | None
    log: str | None
    position: str


class Compared(NamedTuple):
    """How many keys were compared: equal ones, those with a different field, and those that only one side has."""

    where: str
    about: str
    keys: int
    equal: int
    differing: int
    only_log: int
    only_live: int


FOUND = t.StructType([
    *(t.StructField(name, t.StringType()) for name in Difference._fields),
    *(t.StructField(name, t.LongType()) for name in Compared._fields[2:]),
])  # fmt: skip
"""Rows of both kinds: with a `key` a difference, else how many keys of one task were compared."""


def rows_of(compared: Compared, differences: list[Difference]) -> list[tuple[object, ...]]:
    """Return both as rows of `FOUND`."""
    counts = (compared.where, compared.about, *[None] * 5, *compared[2:])
    return [counts, *((*each, *[None] * 5) for each in differences)]


def compared_of(where: str, about: str, equal_keys: int, differences: list[Difference]) -> Compared:
    """Count keys: `equal_keys` equal ones, and those that differences are about."""
    by_key = {each.key: each for each in differences}
    only_log = sum(not each.field and each.live is None for each in by_key.values())
    only_live = sum(not each.field and each.log is None for each in by_key.values())
    differing = len(by_key) - only_log - only_live
    return Compared(where, about, equal_keys + len(by_key), equal_keys, differing, only_log, only_live)
