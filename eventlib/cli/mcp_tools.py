"""The tools of `eventlib mcp`: each answers as the command of that name does, with bounds on how much."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import wraps
from shlex import quote
from typing import Annotated, Any, ParamSpec

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import Field
from pydantic_core import from_json

from eventlib.cli._common import output
from eventlib.cli._common.saga_status import state_json
from eventlib.cli._common.searching import page_json, up_to_now
from eventlib.cli.history_json import step_json
from eventlib.cli.mcp_asking import Work
from eventlib.cli.replay_report import report_json
from eventlib.cli.saga import saga_as_json
from eventlib.cli.sql import answer_json, tables_json
from eventlib.errors import ContractError, EventlibError
from eventlib.eventlog import EventLog
from eventlib.operations.act import Desk
from eventlib.operations.as_json import parking_json, waiting_json
from eventlib.operations.every_act import ACTS
from eventlib.operations.parked_acts import Chosen, Retry, parked_under
from eventlib.queries.parked import Parking, parkings, waiting_inputs
from eventlib.queries.sagas import find_saga
from eventlib.queries.state import state_of
from eventlib.replay import replay
from eventlib.replay.key_history import key_history
from eventlib.replay.point_in_time import parse_point_in_time, snapshot_at, state_in
from eventlib.search.compiling import sagas_of
from eventlib.search.saga_search import SagaQuery, SagaSearch
from eventlib.sql import SqlQuery, ask, live_tables
from eventlib.values import time_of

P = ParamSpec("P")
Answered = dict[str, Any]
MOST = 200
"""How many events, steps, sagas or rows an answer has at most: an assistant reads them all."""
_MOST_PARKED = 50
_MOST_WAITING = 20
_REPLAY_S = 300.0
_ACTS = {each.__name__: each for each in ACTS}

Key = Annotated[str, Field(description="The decider's key: an order's id, a product's SKU.")]
DeciderName = Annotated[str, Field(description="A decider's name; the instructions of this server list them.")]
At = Annotated[str | None, Field(description="A time in UTC (2026-01-31T12:00:00Z); none is now.")]
Limit = Annotated[int, Field(description="How many at most.", ge=1, le=MOST)]


class LogTools:
    """Answers questions about an open log. Guarantee: writes nothing, and asks nothing outside."""

    def __init__(self, log: EventLog) -> None:
        self._log = log

    async def search_sagas(
        self,
        where: Annotated[
            str, Field(description="A condition, such as: status = 'overdue' and age > 2h. Empty: all.")
        ] = "",
        order_by: Annotated[str, Field(description="An attribute, with asc or desc.")] = "started_at desc",
        limit: Limit = 20,
        after: Annotated[str | None, Field(description="`next` of the page before.")] = None,
    ) -> Answered:
        """Find sagas by status, by what they wait for, and by what the application declares; search_attributes lists names.

        Compare by =, !=, <, <=, >, >=, in (...), between ... and ..., like '%...%' and is null; join by and, or, not.
        """
        async with SagaSearch(self._log) as search:
            await up_to_now(search)
            return page_json(await search.full_page(SagaQuery(where, order_by, limit, after)))

    async def search_attributes(self) -> Answered:
        """List what search_sagas can name: each attribute's type, values and meaning."""
        found = sagas_of(self._log.choreography)
        return {
            "attributes": [
                {"name": each.name, "type": each.kind.type, "values": [*each.kind.choices], "about": each.about}
                for each in found
            ]
        }

    async def saga(
        self,
        key: Annotated[str, Field(description="The saga's key: an order's id.")],
        at: At = None,
        limit: Limit = MOST,
    ) -> Answered:
        """Show one saga across all services: each event with its cause, time and data, how it ended, and what is parked.

        With a time, as of then, and with the state of each decider.
        """
        found = await saga_as_json(self._log, key, None if at is None else time_of(at))
        return _bounded(found, "events", limit)

    async def history(self, decider: DeciderName, key: Key, limit: Limit = 50) -> Answered:
        """Show what a decider did with a key, step by step: input, emitted events, changes, and the state after it; the last ones."""
        found = await key_history(self._log, self._log.choreography.decider(decider), key)
        steps = found.steps[-limit:]
        left_out = len(found.steps) - len(steps)
        return {"steps": [step_json(each) for each in steps], "left_out_before": left_out, "doubt": found.doubt or None}

    async def state_at(
        self,
        decider: DeciderName,
        key: Key,
        at: Annotated[
            str | None, Field(description="A time in UTC, or an event's id: after that event. None is now.")
        ] = None,
    ) -> Answered:
        """Show a decider's state for a key, now, at a time, or after an event."""
        if at is None:
            return state_json(await state_of(self._log, decider, key))
        snapshot = await snapshot_at(self._log, decider, key, parse_point_in_time(at))
        return {**state_json(state_in(snapshot)), "doubt": snapshot.doubt or None}

    async def explain_parked(
        self,
        key: Annotated[str | None, Field(description="A key, or an effect's id. None lists what is parked.")] = None,
    ) -> Answered:
        """Say why inputs or effects are parked, where the code raised, what waits behind them, and what a retry would come to.

        What a retry comes to is decided by today's code on the state as it is; nothing is written.
        """
        found = await parkings(self._log)
        if key is None:
            listed = [_without(parking_json(each), "traceback") for each in found[:_MOST_PARKED]]
            return {"parked": listed, "left_out": len(found) - len(listed)}
        return {"parked": [await self._explained(each) for each in parked_under(found, key)]}

    async def _explained(self, parking: Parking) -> Answered:
        waiting = await waiting_inputs(self._log, parking, _MOST_WAITING)
        act = Retry(service=parking.service, decider=parking.decider, key=parking.id or parking.key, dry_run=True)
        (retried,) = (await act.preview(Desk(self._log, ""), Chosen([parking]))).previews
        return {
            **parking_json(parking),
            "inputs": [waiting_json(parking, each) for each in waiting],
            "retry": {
                "comes_to": retried.prospect,
                "inputs_handled": retried.handled,
                "emits": [{"type": type(each).__name__, "data": each} for each in retried.emitted[:MOST]],
                "reason": retried.reason or None,
                "traceback": retried.traceback or None,
            },
            "a_person_can": [
                f"eventlib parked {act} {quote(parking.decider)} {quote(parking.id or parking.key)}"
                for act in ("retry", "edit", "discard")
            ],
        }

    async def preview_act(
        self,
        act: Annotated[str, Field(description=f"One of {', '.join(_ACTS)}.")],
        fields: Annotated[dict[str, object], Field(description="The act's fields, as the admin API takes them.")],
    ) -> Answered:
        """Say what an act of an operator would come to, and with which token a person can have just that done; nothing is done."""
        if act not in _ACTS:
            raise ContractError(f"there is no act {act!r}: there are {', '.join(_ACTS)}")
        bounds = {"most_tried": _MOST_PARKED} if "most_tried" in _ACTS[act].model_fields else {}
        seen = await _ACTS[act].of({**bounds, **fields, "dry_run": True}).perform(Desk(self._log, ""))
        found = seen.json()
        return {name: each[:MOST] if isinstance(each, list) else each for name, each in found.items()}

    async def replay_with_todays_code(
        self,
        saga: Annotated[
            str | None, Field(description="Only decisions about this saga, by its key. None compares all.")
        ] = None,
        services: Annotated[list[str] | None, Field(description="Only these services.")] = None,
        since: Annotated[str | None, Field(description="Decisions from this time (UTC) on.")] = None,
    ) -> Answered:
        """Decide the recorded inputs again with today's code, and tell what it would emit differently; no effect runs.

        It reads the whole log, so it can take minutes on a large one.
        """
        named = None if services is None else [self._log.choreography.service(name).name for name in services]
        from_time, ids = None if since is None else time_of(since), None
        if saga is not None:
            events = (await find_saga(self._log, saga)).events
            ids = {each.record.correlation_id or each.record.event_id or "" for each in events}
        try:
            async with asyncio.timeout(_REPLAY_S):
                return report_json(await replay(self._log, services=named, since=from_time, sagas=ids))
        except TimeoutError as error:
            raise ToolError(
                f"the replay took more than {_REPLAY_S:g} s: narrow it by `services` or `since`, or run `eventlib replay`"
            ) from error

    async def sql(
        self,
        question: Annotated[
            str, Field(description="One SELECT in SQLite's SQL. Times are texts such as 2026-01-31T12:00:00.000Z.")
        ],
        limit: Limit = 100,
    ) -> Answered:
        """Ask in SQL over events, states and sagas, as they are now; sql_tables lists the tables and columns."""
        answer = await ask(self._log, SqlQuery(question, limit), up_to_now=up_to_now)
        return {**answer_json(answer), "position": _by_topic(answer.position)}

    async def sql_tables(self) -> Answered:
        """List the tables that sql can name, each with its columns and their types."""
        return {"tables": tables_json(live_tables(self._log.choreography))}


def add_tools(server: MCPServer, tools: LogTools) -> None:
    """Give a server the tools, each marked as one that only reads."""
    work = Work()
    hints = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
    for each in (
        tools.search_sagas,
        tools.search_attributes,
        tools.saga,
        tools.history,
        tools.state_at,
        tools.explain_parked,
        tools.preview_act,
        tools.replay_with_todays_code,
        tools.sql,
        tools.sql_tables,
    ):
        server.tool(annotations=hints)(_plain(each, work))


def _plain(tool: Callable[P, Coroutine[Any, Any, Mapping[str, Any]]], work: Work) -> Callable[P, Awaitable[Answered]]:
    """Return a tool whose answers are plain JSON, and whose errors are sentences."""

    @wraps(tool)
    async def answered(*args: P.args, **kwargs: P.kwargs) -> Answered:
        try:
            found: Answered = from_json(output.json_line(await work.run(tool(*args, **kwargs))))
        except EventlibError as error:
            raise ToolError(str(error)) from error
        return found

    return answered


def _bounded(found: Mapping[str, object], name: str, limit: int) -> Answered:
    """Return an answer with the last entries of a list, and how many are left out before them."""
    entries = found[name]
    assert isinstance(entries, list)  # noqa: S101  for the type checker
    return {**found, name: entries[-limit:], "left_out_before": max(0, len(entries) - limit)}


def _by_topic(position: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Return the next offsets by topic and partition: said shorter than with each topic's name again and again."""
    found = dict[str, dict[str, int]]()
    for place, offset in position.items():
        topic, _, partition = place.rpartition("/")
        found.setdefault(topic, {})[partition] = offset
    return found


def _without(found: Mapping[str, object], name: str) -> Answered:
    return {key: value for key, value in found.items() if key != name}
