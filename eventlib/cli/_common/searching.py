"""Commands that ask an index of sagas, made from the log if it is not there yet."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from typing import Annotated, TypeVar

from eventlib.cli._common.options import LogOptions, option, run_on_log
from eventlib.cli._common.progress import ProgressBar
from eventlib.eventlog import EventLog
from eventlib.queries.projection import Projection
from eventlib.search.saga_search import MOST_LIMIT, SagaPage, SagaQuery, SagaSearch
from eventlib.values import iso

T = TypeVar("T")
_LOOK_S = 0.2

WhereOption = Annotated[
    str, option("--where -w", "QUERY", "Only those for which this holds; see `eventlib sagas attributes`.")
]


def run_on_sagas(log_options: LogOptions, ask: Callable[[SagaSearch], Awaitable[T]]) -> T:
    """Ask an index of sagas that has all that is on the log now. Raises: WiringError; what ends the index for good."""

    async def searched(log: EventLog) -> T:
        async with SagaSearch(log) as search:
            await up_to_now(search)
            return await ask(search)

    return run_on_log(log_options, searched)


async def keys_of(where: str, search: SagaSearch) -> list[str]:
    """Return the keys of all sagas for which a query holds."""
    found, query = list[str](), SagaQuery(where, limit=MOST_LIMIT)
    while True:
        page = await search.full_page(query)
        found += (str(saga["saga"]) for saga in page.sagas)
        if page.next is None:
            return found
        query = replace(query, after=page.next)


async def up_to_now(index: Projection) -> None:
    """Wait until an index has all that is on the log now, and show on a terminal how far it is."""
    ends = await index.ends()
    left = sum(max(0, end - index.positions.get(place, 0)) for place, end in ends.items())
    with ProgressBar("the index reads the log", quiet=not left) as bar:
        while not await index.has_read(ends, _LOOK_S):
            bar.show(left - sum(max(0, end - index.positions.get(place, 0)) for place, end in ends.items()), left)


def page_json(page: SagaPage) -> dict[str, object]:
    """Return a page of sagas as JSON."""
    return {
        "sagas": [_plain(saga) for saga in page.sagas],
        "next": page.next,
        "staleness_ms": page.staleness_ms,
        "damaged": page.damaged,
        "position": dict(page.position),
    }


def _plain(value: object) -> object:
    match value:
        case datetime():
            return iso(value)
        case dict():
            return {name: _plain(each) for name, each in value.items()}
        case list():
            return [_plain(each) for each in value]
        case _:
            return value
