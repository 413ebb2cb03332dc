"""Conditions on what is parked, in the query language of searches."""

import sqlite3
from collections.abc import Callable
from contextlib import closing

from eventlib.index.attributes import DURATION, INTEGER, TEXT, TIME, Attribute
from eventlib.queries.parked import Parking
from eventlib.search.compiling import Catalogue, compiled
from eventlib.search.language import parse_where
from eventlib.values import now_ms, to_ms

OF_PARKED = Catalogue(
    "parked keys and effects",
    [
        Attribute("service", TEXT, "the service that could not handle it", "s.service"),
        Attribute("decider", TEXT, "its decider", "s.decider"),
        Attribute("key", TEXT, "the key whose inputs wait", "s.key"),
        Attribute("effect", TEXT, "the type of an effect's request; null for a key", "s.effect"),
        Attribute("reason", TEXT, "why it is parked", "s.reason"),
        Attribute("code_version", TEXT, "the version of the code that could not handle it", "s.code_version"),
        Attribute("waiting", INTEGER, "how many inputs wait", "s.waiting"),
        Attribute("since", TIME, "since when", "s.since"),
        Attribute("age", DURATION, "since then, until now", "s.since"),
    ],
)
"""What a query can name of what is parked."""


def parked_where(where: str) -> Callable[[Parking], bool]:
    """Return whether a condition holds for something parked: `age > 2h and reason like '%KeyError%'`.

    Raises: QueryError, with the place.
    """
    condition = compiled(parse_where(where), OF_PARKED, now_ms())
    columns = ("service", "decider", "key", "effect", "reason", "code_version", "waiting", "since")
    row = ", ".join(f":{name} AS {name}" for name in columns)
    question = f"SELECT {condition.sql} FROM (SELECT {row}) AS s"  # noqa: S608  compiled from a catalogue

    def holds(parking: Parking) -> bool:
        values = {name: getattr(parking, name) for name in columns} | {"since": to_ms(parking.since)}
        with closing(sqlite3.connect(":memory:")) as db:
            (found,) = db.execute(question, {**condition.values, **values}).fetchone()
        return bool(found)

    return holds
