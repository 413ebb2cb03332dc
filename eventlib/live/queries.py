"""Questions to live views over HTTP, at any worker: who has the rows answers.

`GET /views` lists them, with what this worker's views have lost of their inputs (`lost`, sentences). `GET /readyz` answers 200 when this worker's tables are whole and every partition has a worker. `GET /views/NAME?key=KEY` has the rows of one key (a country, a SKU, a customer),
`GET /views/NAME` all rows; with `late`, how many events came too late to count.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import aiohttp
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from eventlib.http.gate import Gate
from eventlib.identity.identity import identity_of
from eventlib.identity.principal import Role, Rule
from eventlib.live.joins import added
from eventlib.live.rows import SEPARATOR, Row, Rows
from eventlib.live.timed import Timed

if TYPE_CHECKING:
    from eventlib.live.app import LiveApp

_PATIENCE_S = 10.0
_READERS = frozenset({Role.SHOP, Role.OPERATOR, Role.AUDITOR, Role.ADMIN})
RULES = (
    *(Rule(path, frozenset({"GET"}), _READERS) for path in ("/views", "/views/{name}")),
    Rule("/readyz", frozenset({"GET"}), frozenset()),
)
"""Who may call what."""


class Elsewhere(Exception):
    """Rows are with no worker just now, or with one that does not answer."""


class Queries:
    """The pages of an app's views, as an ASGI app."""

    def __init__(self, app: "LiveApp") -> None:
        self._app = app
        self.identity = identity_of()
        self._token = self.identity.internal_token  # workers ask each other by it
        routes = [Route("/views", self._views), Route("/readyz", self._ready), Route("/views/{name}", self._rows)]
        self.pages = Gate(Starlette(routes=routes), self.identity, RULES)

    async def _views(self, _: Request) -> Response:
        return JSONResponse({"service": self._app.of, "views": sorted(self._app.views), "lost": self._app.losses})

    async def _ready(self, _: Request) -> Response:
        lacking = self.lacking()
        return JSONResponse({"ready": True}) if lacking is None else _unavailable(lacking)

    async def _rows(self, request: Request) -> Response:
        name = request.path_params["name"]
        found = self._app.views.get(name)
        if found is None:
            known = ", ".join(sorted(self._app.views))
            return JSONResponse({"title": f"there is no view {name!r}: there are {known}"}, 404)
        key, here = request.query_params.get("key"), request.query_params.get("partition")
        try:
            if here is not None:
                return JSONResponse(self._of(found, key, _numbers(here)))
            return JSONResponse(await self._everywhere(found, key))
        except Elsewhere as error:
            return _unavailable(str(error))

    def lacking(self) -> str | None:
        """Return what keeps this worker from answering for everything; None when nothing does."""
        return self._reading() or next(filter(None, map(self._without_owner, self._app.views.values())), None)

    def _reading(self) -> str | None:
        """Return the error while this worker's tables are not complete; None when they are."""
        is_whole = not (self._app.rebalancing or self._app.in_recovery)
        return None if is_whole else "tables are being read from their changelogs"

    def _of(self, rows: Rows, key: str | None, partitions: Sequence[int]) -> Row:
        """Return what this worker has of these partitions. Raises: Elsewhere, rather than to answer for what it has not."""
        if (reading := self._reading()) is not None:
            raise Elsewhere(reading)
        owners = self._owners(rows)
        if (other := next((each for each in partitions if owners.get(each) != self._here), None)) is not None:
            raise Elsewhere(f"partition {other} of {rows.name} is not here")
        prefix = "" if key is None else key
        found = [
            rows.shown(name, row)
            for partition in partitions
            for name, row in rows.here(partition, prefix)
            if key is None or name == key or name.startswith(key + SEPARATOR)
        ]
        late = sum(rows.late(partition) for partition in partitions) if isinstance(rows, Timed) else 0
        return {"rows": found, "late": late}

    async def _everywhere(self, rows: Rows, key: str | None) -> Row:
        """Return what all workers have of a view, or of one key of it. Raises: Elsewhere."""
        owners = self._owners(rows)
        topic = self._app.topic_of(rows)
        wanted = range(topic.partitions) if key is None or rows.in_parts else [topic.partition_of(key.encode())]
        if (lacking := self._without_owner(rows, wanted)) is not None:
            raise Elsewhere(lacking)
        asked = dict[str, list[int]]()
        for partition in wanted:
            asked.setdefault(owners[partition], []).append(partition)
        answers = await asyncio.gather(*(self._ask(rows, key, *each) for each in asked.items()))
        found = [row for each in answers for row in each["rows"]]
        return {
            "view": rows.name,
            "rows": sorted(_whole(found) if rows.in_parts else found, key=_place),
            "late": sum(each["late"] for each in answers),
        }

    async def _ask(self, rows: Rows, key: str | None, owner: str, partitions: list[int]) -> Row:
        if owner == self._here:
            return self._of(rows, key, partitions)
        headers = {"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {self._token}"} if self._token else {})
        query = {"partition": ",".join(map(str, partitions)), **({} if key is None else {"key": key})}
        try:
            async with (
                asyncio.timeout(_PATIENCE_S),
                self._app.http_client.get(
                    f"{owner.rstrip('/')}/views/{rows.name}", params=query, headers=headers
                ) as answer,
            ):
                answer.raise_for_status()
                found: Row = await answer.json()
                return found
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise Elsewhere(f"{owner}, which has the rows, does not answer: {error}") from error

    @property
    def _here(self) -> str:
        return str(self._app.conf.canonical_url)

    def _without_owner(self, rows: Rows, wanted: Iterable[int] | None = None) -> str | None:
        """Return which partition of a view has no worker; None when each of those that are wanted has one."""
        every = range(self._app.topic_of(rows).partitions) if wanted is None else wanted
        missing = next((each for each in every if each not in self._owners(rows)), None)
        return (
            None
            if missing is None
            else f"no worker has partition {missing} of {rows.name} just now: workers are starting"
        )

    def _owners(self, rows: Rows) -> dict[int, str]:
        """Return the URL of the worker that has each partition."""
        hosts = self._app.router.table_metadata(rows.table.name)
        changelog = self._app.changelog_of(rows.table.name)
        return {partition: host for host, topics in hosts.items() for partition in topics.get(changelog, ())}


def _numbers(text: str) -> list[int]:
    """Return the numbers of partitions. Raises: Elsewhere for what is none: no worker has it."""
    parts = text.split(",")
    if not all(each.isdecimal() for each in parts):
        raise Elsewhere(f"{text!r} are no partitions: write numbers with commas")
    return [int(each) for each in parts]


def _unavailable(why: str) -> Response:
    return JSONResponse({"title": why}, 503, {"Retry-After": "2"})


def _whole(parts: list[Row]) -> list[Row]:
    found = dict[tuple[str, ...], Row]()
    for part in parts:
        amounts = {name: value for name, value in part.items() if name != "key"}
        found[tuple(part["key"])] = added(found.get(tuple(part["key"]), {}), amounts)
    return [{"key": [*key], **row} for key, row in found.items()]


def _place(row: Row) -> Any:
    return row["key"], row.get("from", "")
