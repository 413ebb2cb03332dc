"""Spark jobs that replay the log: every event ever written as a DataFrame, from any kind of log.

`session()` makes a Spark session, `log(spark, url)` the whole log, `events(spark, url, OrderPlaced)` one event's records,
and `spans(url)` returns the current offsets, to read only new ones later.
"""

from typing import NoReturn

try:
    from analytics.asking import spans
    from analytics.events import events
    from analytics.log import log
    from analytics.schema import SCHEMA
    from analytics.selection import Only
    from analytics.session import session
except ModuleNotFoundError as error:
    # `python -m analytics archive` works without Spark; every other command names the missing package.
    _lacking = error

    def __getattr__(name: str) -> NoReturn:
        if name in __all__:
            raise ModuleNotFoundError(f"analytics.{name}: {_lacking}", name=_lacking.name) from _lacking
        raise AttributeError(f"module 'analytics' has no attribute {name!r}")


__all__ = ["SCHEMA", "Only", "events", "log", "session", "spans"]
