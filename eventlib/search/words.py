"""Finds a word in the payloads of events: in their bytes on the log, the newest events first, a bounded number at a time."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from time import perf_counter
from typing import Any

from pydantic_core import to_json

from eventlib.errors import DamagedRecord
from eventlib.eventlog import EventLog
from eventlib.index.log_index import LogIndex
from eventlib.json_form import json_of
from eventlib.model.event import Event, contract_of
from eventlib.model.personal import personal_fields
from eventlib.model.record import Record
from eventlib.model.schema.derive import record_of
from eventlib.model.schema.types import Symbols, nodes_in
from eventlib.values import from_ms

_BLOCK = 2_000
_LARGEST = 2**63 - 1
_NEWEST = """
SELECT n, saga, topic, partition, "offset", recorded_at FROM _events WHERE n < ? ORDER BY n DESC LIMIT ?
"""


@dataclass(frozen=True, slots=True)
class WordFound:
    """An event with the word: its saga if it has one, its type, time and place, and the field with its text."""

    saga: str | None
    type: str
    at: datetime
    location: tuple[str, int, int]
    field: str
    text: str


@dataclass(frozen=True, slots=True)
class WordPage:
    """The hits in `looked_at` events, all of them since `since`; `left` are older. `next` continues there, None at the end.

    `unread` of these events cannot be read, so the word may be in them.
    """

    found: list[WordFound]
    looked_at: int
    left: int
    since: datetime | None
    unread: int
    next: int | None


async def find_word(index: LogIndex, word: str, before: int | None, within_s: float, most: int) -> WordPage:
    """Return the newest events whose payload has a word: in a text, in capital letters or small ones, or as a whole number.

    Personal fields are never looked at: their text is encrypted on the log. Cost: it reads events for about `within_s`, or
    until it has found `most`; `before` is the `next` of the page before. Raises: LogUnavailable and the like.
    """
    pattern, symbolic = _bytes_of(word), _types_with(index.log, word)
    until, before = perf_counter() + within_s, _LARGEST if before is None else before
    found, looked_at, unread, since = list[WordFound](), 0, 0, None
    while len(found) < most and perf_counter() < until and (rows := index.rows(_NEWEST, (before, _BLOCK))):
        await asyncio.sleep(0)  # others are answered meanwhile
        records = {record.location: record async for record in _records(index.log, [row[2:5] for row in rows])}
        for number, saga, *place, at_ms in rows:
            before = number
            record, since, looked_at = records.get((*place,)), from_ms(at_ms), looked_at + 1
            if record is None or not (record.type in symbolic or pattern.search(record.value or b"")):
                unread += record is None
                continue
            ((_, value),) = await index.log.decode_many([record])
            if not isinstance(value, Event):
                unread += value is not None
            elif (where := next(_places(value, word), None)) is not None:
                found.append(WordFound(saga, record.type or "", since, record.location, *where))
                if len(found) == most:
                    break
    left = index.rows("SELECT count(*) FROM _events WHERE n < ?", (before,))[0][0] if looked_at else 0
    return WordPage(found, looked_at, left, since, unread, before if left else None)


def _types_with(log: EventLog, word: str) -> set[str]:
    """Return the types of events with an enum one of whose values has a word: Avro writes such a value as a number."""
    wanted = word.casefold()
    return {
        contract_of(event).type
        for event in log.choreography.events
        for node in nodes_in(record_of(event))
        if isinstance(node, Symbols) and any(wanted in symbol.casefold() for symbol in node.members)
    }


async def _records(log: EventLog, places: list[tuple[Any, ...]]) -> AsyncIterator[Record]:
    by_partition = dict[tuple[str, int], list[int]]()
    for topic, partition, offset in places:
        by_partition.setdefault((topic, partition), []).append(offset)
    for place, offsets in by_partition.items():
        wanted, offset = {*offsets}, min(offsets)
        while wanted and offset <= max(wanted):
            try:
                records = await log.port.read(*place, offset, len(wanted))
            except DamagedRecord as error:
                wanted, offset = {each for each in wanted if each >= error.resume_at}, error.resume_at
                continue
            for record in records:
                if record.offset in wanted:
                    yield record
            if not records:
                break
            offset = records[-1].offset + 1
            wanted = {each for each in wanted if each >= offset}


def _bytes_of(word: str) -> re.Pattern[bytes]:
    """Return what a payload has somewhere that has a word: as UTF-8, escaped as in JSON, or as an integer of Avro or Protobuf."""
    written = {word, word.lower(), word.upper(), word.title()}
    forms = {form for each in written for form in (each.encode(), each.encode("ascii", "backslashreplace"))}
    forms.add(to_json(word)[1:-1])
    with suppress(ValueError):
        number = int(word)
        if abs(number) <= _LARGEST:
            forms |= {_varint((number << 1) ^ (number >> 63)), _varint(number & (2**64 - 1))}
    return re.compile(b"|".join(map(re.escape, forms)), re.IGNORECASE)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:  # noqa: PLR2004  seven bits a byte
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _places(event: Event, word: str) -> Iterator[tuple[str, str]]:
    """Yield where an event has a word, and the text or number that has it."""
    hidden, wanted = personal_fields(type(event)), word.casefold()
    shown = {name: value for name, value in json_of(event).items() if name not in hidden}
    for path, value in _leaves(shown, ""):
        text = value if isinstance(value, str) else to_json(value).decode()
        if wanted in text.casefold() if isinstance(value, str) else wanted == text:
            yield path, text


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _leaves(each, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _leaves(each, f"{path}[{number}]")
    elif value is not None:
        yield path, value
