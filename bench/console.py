"""How fast the console answers: `python -m bench.console [COUNT …]`, by default 10,000 and 100,000 sagas.

The log is one that the shop's own runtime has made (`console_log`), in `build/console/COUNT`, where it stays for the next run; a
million takes some ten minutes and 5 GB. The console is the whole application, asked in its own process without a network:
each page 40 times in turns, from the request to the last byte, as a clock sees it and as CPU time, which other work on the
machine changes less. What `eventlib sql` and the search take is beside it. Prints a JSON object for each COUNT: the seconds of a
clock and of CPU until the index is made and caught up, and its bytes; the first look at the overview and at the acts, which
read for all later ones; then of each page p50, p99 and the slowest in ms, and its bytes.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import httpx
from fastapi import FastAPI

from bench.console_log import fill, records_of
from bench.saga_search import Times, summary
from eventlib import open_log
from eventlib.console.app import create_console
from eventlib.console.sessions import SessionIdentity
from eventlib.identity import IdentityOptions
from eventlib.search import SagaQuery
from services import shop

_ROUNDS = 40
_WAITS_S = 7_200.0
_PAGES = {
    "overview": "/overview",
    "sagas, first page": "/sagas",
    "sagas, next page": "",
    "sagas, with a filter": "/sagas?where=country+%3D+%27France%27+and+status+%3D+%27open%27",
    "sagas, a filter that few meet": "/sagas?where=amount_cents+between+5000+and+5001&order_by=last_at+desc",
    "one saga": "/saga/order-1010",
    "one saga, as a tree": "/saga/order-1010?view=tree",
    "one saga, which is parked": "/saga/order-2000",
    "a saga's state after an event": "/moment/order-1010?at=4",
    "parked": "/parked",
    "acts of a week": "/acts",
    "topics": "/topics",
    "one topic": "/topics/orders",
    "reruns": "/reruns",
    "choreography": "/choreography",
}


class Asked:
    """A client of the console, in the console's process."""

    def __init__(self, app: FastAPI) -> None:
        transport = httpx.ASGITransport(app, client=("127.0.0.1", 1))
        self._client = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=_WAITS_S)

    async def page(self, path: str) -> tuple[tuple[float, float], str]:
        """Return the ms and the CPU ms of a page, and the page."""
        begun = perf_counter(), process_time()
        answer = await self._client.get(path, headers={"accept": "text/html"})
        took = (perf_counter() - begun[0]) * 1000, (process_time() - begun[1]) * 1000
        assert answer.status_code == httpx.codes.OK, f"{path}: {answer.status_code} {answer.text[:500]}"
        return took, answer.text


async def once(act: Callable[[], Any]) -> tuple[dict[str, float], Any]:
    """Return the seconds and the CPU seconds of an act, and what it returns."""
    begun = perf_counter(), process_time()
    found = await act()
    return {"s": round(perf_counter() - begun[0], 2), "cpu_s": round(process_time() - begun[1], 2)}, found


async def measured(path: Path) -> dict[str, Any]:
    """Return the figures of a log."""
    found: dict[str, Any] = {"records": await records_of(path)}
    async with AsyncExitStack() as stack:
        log = await stack.enter_async_context(open_log(f"sqlite:///{path}", shop))
        app = create_console(log, SessionIdentity(IdentityOptions()))
        asked = Asked(app)
        await stack.enter_async_context(app.router.lifespan_context(app))
        index = app.state.index
        took, _ = await once(lambda: index.caught_up(_WAITS_S))
        ((size,),) = index.rows("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
        found["index"] = took | {"bytes": size}
        _, page = await asked.page("/sagas")
        following = page.partition('rel="next"')[0].rpartition('href="')[2].partition('"')[0].replace("&amp;", "&")
        paths = _PAGES | {"sagas, next page": following}
        found["first look"] = {}
        for name, address in paths.items():
            found["first look"][name], _ = await once(lambda address=address: asked.page(address))  # type: ignore[misc]
        times: dict[str, Times] = {name: [] for name in paths}
        sizes = dict.fromkeys(paths, 0)
        for _ in range(_ROUNDS):
            for name, address in paths.items():
                took_ms, text = await asked.page(address)
                times[name].append(took_ms)
                sizes[name] = len(text)
        found["pages"] = {name: summary(each) | {"bytes": sizes[name]} for name, each in times.items()}
        each = Times()
        for _ in range(_ROUNDS):
            begun = perf_counter(), process_time()
            await index.page(SagaQuery("country = 'France' and status = 'open'"))
            each.append(((perf_counter() - begun[0]) * 1000, (process_time() - begun[1]) * 1000))
        found["search"] = summary(each)
    return found


def main(counts: list[int]) -> None:
    """Measure logs with so many sagas."""
    for count in counts:
        path = Path("build", "console", str(count), "log.db")
        if not path.exists():
            path.parent.mkdir(parents=True)
            asyncio.run(fill(path, count))
        figures = {"sagas": count, "bytes": path.stat().st_size} | asyncio.run(measured(path))
        print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main([int(each) for each in sys.argv[1:]] or [10_000, 100_000])
