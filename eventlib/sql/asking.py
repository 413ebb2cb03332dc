"""Puts one question to the tables: reads what is new on the log into them, and has it answered by a process of its own."""

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import eventlib.ground.posix  # noqa: F401  what the worker needs of the system: it has no library to name a remedy
from eventlib.errors import ContractError, LogUnavailable
from eventlib.eventlog import EventLog
from eventlib.ground.arguments import A_LOG, check, did_you_mean
from eventlib.index.log_index import LogIndex
from eventlib.index.schema import core_schema, typed_schema
from eventlib.index.tables import (
    ONLY_REBUILT,
    Declared,
    LiveTable,
    event_fields,
    event_table,
    live_tables,
    state_fields,
    state_table,
)
from eventlib.model.choreography import Choreography
from eventlib.model.event import contract_of
from eventlib.queries.projection import Projection

MOST_ROWS = 100_000
MOST_S = 600.0
_GRACE_S = 1.0
_MOST_LINE = 1 << 30
"""Bytes of an answer, which its process bounds to fewer."""
_WORKER = str(Path(__file__).with_name("worker.py"))
_REBUILT = "`python -m analytics rebuild` makes it"


@dataclass(frozen=True, slots=True)
class SqlQuery:
    """A question: one SELECT in SQLite's SQL, how many rows are wanted at most, and within how many seconds."""

    question: str
    limit: int = 1_000
    within_s: float = 30.0

    def __post_init__(self) -> None:
        """Refuse bounds that are none. Raises: ContractError."""
        if not 1 <= self.limit <= MOST_ROWS:
            raise ContractError(f"limit is {self.limit}: it is how many rows an answer has at most, 1 to {MOST_ROWS:,}")
        if not 0 < self.within_s <= MOST_S:
            raise ContractError(f"the time limit is {self.within_s:g} s: give more than 0, and {MOST_S:g} at most")


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of an answer, whether there are more than its limit, and where on the log it stands.

    Times are ISO 8601 texts, decimals texts, lists and structs as JSON has them. `position` is the next offset that was
    not read, by `topic/partition`; `damaged` counts the records before it that cannot be read, also for breaking their
    contract, and so are not in it.
    """

    columns: list[str]
    rows: list[list[Any]]
    is_cut: bool
    position: Mapping[str, int]
    damaged: int


Wait = Callable[[Projection], Awaitable[None]]


async def _caught_up(tables: Projection) -> None:
    while not await tables.has_read(await tables.ends(), 1.0):
        pass


async def ask(log: EventLog, query: SqlQuery, *, up_to_now: Wait = _caught_up) -> Answer:
    """Return the answer to a question, on all that is on the log now.

    Guarantee: it reads only, whatever the question; it ends within its time, and one answer is of one moment.
    Personal fields are masked, whatever rights the log was opened with. Raises: ContractError for a question that cannot
    be answered, with the remedy; WiringError for events whose tables would have one name; LogUnavailable.
    """
    check(log, EventLog, "log", A_LOG)
    with TemporaryDirectory() as scratch:
        in_memory = log.port.url.startswith("memory:")
        async with _worker() as worker:
            named = await worker.answer_to(_asked(log, query), query.within_s + _GRACE_S)
            topics = set() if isinstance(named, dict) else _topics_of(log.choreography, named)
            path = Path(scratch) / "index.db" if in_memory else None
            async with LogIndex(log, path=path, topics=topics, is_typed=_is_typed(named)) as tables:
                await up_to_now(tables)
                tables.index_causes()
                where = {
                    "file": f"{tables.file.absolute().as_uri()}?mode=ro",
                    "made_by": [log.port.log_id, tables.view.fingerprint],
                    "topics": sorted(topics),
                }
            found = named if isinstance(named, dict) else await worker.answer_to(where, query.within_s + _GRACE_S)
    if "refused" in found:
        raise _explained(found, query, live_tables(log.choreography))
    position = {f"{topic}/{partition}": offset for topic, partition, offset in found["positions"] if topic in topics}
    return Answer(found["columns"], found["rows"], found["is_cut"], position, found["damaged"])


def _topics_of(app: Choreography, named: Iterable[tuple[str, str]]) -> set[str]:
    """Return the topics whose records are in tables, each named with the innermost view by which it is read, or none."""
    declared = Declared(app)
    events = {event_table(event): contract_of(event).topic.name for event in declared.events.values()}
    states = {state_table(each): app.service_of(each).changelog.name for each in declared.deciders.values()}
    found = set[str]()
    for view, table in named:
        if view in events:
            found.add(events[view])
        elif table.removeprefix("_") in states:
            found.add(states[table.removeprefix("_")])
        elif table == "_waits":
            found |= {service.changelog.name for service in app.services}
        elif table == "_parked_inputs":
            found |= {service.parked.name for service in app.services}
        elif table.removeprefix("_") in events:
            found.add(events[table.removeprefix("_")])
        elif table in {"_events", "_sagas", "_unread"}:
            found |= {contract_of(event).topic.name for event in app.events}
    return found


def _is_typed(named: Any) -> bool:
    """Return whether a question reads a table of the fields of events or states."""
    return not isinstance(named, dict) and any(table.startswith(("_event_", "_state_")) for _, table in named)


def _asked(log: EventLog, query: SqlQuery) -> dict[str, Any]:
    declared = Declared(log.choreography)
    fields = [each for event in declared.events.values() for each in event_fields(event)]
    fields += [each for decider in declared.deciders.values() for each in state_fields(decider)]
    decimals = {each.type.declared for each in fields if each.type.declared.startswith("DECIMAL_")}
    return {
        "schema": f"{core_schema(declared, ())};{typed_schema(declared)}",
        "question": query.question,
        "limit": query.limit,
        "within_s": query.within_s,
        "decimals": {name: int(name.partition("_")[2]) for name in decimals},
    }


class _Worker:
    """A process that answers one question; it reads the question line by line, and is killed when it does not answer in time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def answer_to(self, line: dict[str, Any], within_s: float) -> Any:
        """Return what the process says to a line of JSON; why there is no answer, when it says nothing."""
        assert self._process.stdin is not None and self._process.stdout is not None  # noqa: S101, PT018  they are pipes
        with suppress(ConnectionError):
            self._process.stdin.write(json.dumps(line).encode() + b"\n")
            await self._process.stdin.drain()
        try:
            async with asyncio.timeout(within_s):
                said = await self._process.stdout.readline()
        except TimeoutError:
            return {"refused": "too long"}
        return json.loads(said) if said else {"refused": "too large"}  # ended by one of its limits


@asynccontextmanager
async def _worker() -> AsyncIterator[_Worker]:
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", _WORKER), stdin=pipe, stdout=pipe, stderr=nothing, limit=_MOST_LINE
    )
    try:
        yield _Worker(process)
    finally:
        assert process.stdin is not None  # noqa: S101  it is a pipe
        process.stdin.close()
        try:
            async with asyncio.timeout(_GRACE_S / 2):
                await process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


_REFUSALS = {
    "too large": "the answer, or what it takes to sort it, is too large: add WHERE, LIMIT, or name fewer columns",
    "statement": "only questions are answered here: one SELECT (or WITH … SELECT), which changes nothing",
    "overflow": "an integer of the answer has more than 64 bits (a sum, abs): write total(column), or CAST(column AS REAL), which "
    "are approximate",
    "statements": "this is more than one statement: ask one at a time",
}


def _explained(found: Mapping[str, Any], query: SqlQuery, tables: list[LiveTable]) -> Exception:
    kind, text = found["refused"], found.get("text", "")
    match kind:
        case "busy" | "made anew":
            return LogUnavailable("another process is reading the log into the tables of `eventlib sql`: ask again")
        case "too long":
            return ContractError(
                f"the question was not answered within {query.within_s:g} s: narrow it by a key or a time, or give it more "
                "time (--timeout); `python -m analytics sql` is for questions on everything"
            )
        case "function":
            return ContractError(f"the function {text} is not allowed here")
        case "sql":
            return _of_sqlite(text, query.question, tables)
        case _:
            return ContractError(_REFUSALS[kind])


def _of_sqlite(text: str, question: str, tables: list[LiveTable]) -> Exception:
    if no_table := re.match(r"no such table: (?:main\.)?(.+)", text):
        return _unknown_table(no_table[1], tables)
    if no_column := re.match(r"no such column: (?:.+\.)?(.+)", text):
        words = {*re.findall(r"\w+", question.lower())}
        return _unknown_column(no_column[1], [table for table in tables if table.name in words] or tables, tables)
    if no_function := re.match(r"no such function: (.+)", text):
        return ContractError(
            f"there is no function {no_function[1]}: the SQL is SQLite's, https://sqlite.org/lang_corefunc.html"
        )
    return ContractError(f"the question is no SQL that SQLite reads: {text}")


def _unknown_table(name: str, tables: list[LiveTable]) -> ContractError:
    known = [table.name for table in tables]
    if name in {"fold_errors", "quarantine"} or (name.endswith("_history") and name.removesuffix("_history") in known):
        return ContractError(f"there is no live table {name}: {_REBUILT}, and `python -m analytics sql` asks it")
    return ContractError(
        f"there is no table {name!r}: {did_you_mean(name, known)}`eventlib sql` without a question lists them"
    )


def _unknown_column(name: str, asked: list[LiveTable], tables: list[LiveTable]) -> ContractError:
    for table in asked:
        if name in ONLY_REBUILT.get(table.name, ()):
            return ContractError(f"{table.name} has no {name} live: {_REBUILT}, and `python -m analytics sql` asks it")
    meant = did_you_mean(name, {column for table in asked for column in table.columns})
    has = "; ".join(f"{table.name} has {', '.join(table.columns)}" for table in asked)
    there = has if len(asked) < len(tables) else "`eventlib sql` without a question lists them"
    return ContractError(f"there is no column {name!r}: {meant}{there}")
