"""One Spark worker's part of `Routes.in_order`: whole tasks, one after the other, on a log that is opened once."""

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow as pa

from analytics.audit.application import Application, Run
from analytics.audit.routing import Routes
from analytics.audit.rows import records_of
from eventlib.eventlog import EventLog
from eventlib.model.service import Service
from eventlib.runtime.runtime import collect_garbage_seldom

_OBJECTS = 5_000_000
_NUMBER = itemgetter(2)  # of a row, its task


class Share(NamedTuple):
    """A task's rows in order, the log to decode them with, and a function that runs coroutines."""

    opened: EventLog
    run: Run
    task: tuple[Service, int]
    rows: Iterable[tuple[Any, ...]]


def shares(batches: Iterable[pa.RecordBatch], application: Application, url: str) -> Iterator[Share]:
    """Yield the tasks of a worker's rows; each one's rows have to be used before the next."""
    rows = records_of(batches)
    first = next(rows, None)
    if first is None:
        return  # no rows for this worker: no log is opened
    make_ready()
    routes = Routes(application.choreography)
    with application.running(url) as (opened, run):
        for number, of_task in groupby(chain([first], rows), key=_NUMBER):
            yield Share(opened, run, routes.task(number), of_task)


@cache
def make_ready() -> None:
    """Prepare one of Spark's workers, which serves many tasks: once."""
    collect_garbage_seldom(growth=_OBJECTS)
