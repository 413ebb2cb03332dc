"""What operators request about parked keys and effects, and its previews, without a front end."""

from collections.abc import Sequence
from functools import partial

from eventlib import Event, EventLog
from eventlib.operations.parked_acts import Retry
from eventlib.operations.parked_commands import discard_of, edit_of, retry_of, send
from eventlib.operations.parked_preview import Preview, preview_each
from eventlib.queries.parked import Parking


async def request_retry(log: EventLog, parking: Parking, by: str, reason: str = "") -> None:
    await request_retries(log, [parking], by, reason)


async def request_retries(log: EventLog, found: Sequence[Parking], by: str, reason: str = "") -> None:
    await send(log, [retry_of(each, by, reason) for each in found])


async def request_edit(log: EventLog, parking: Parking, event: Event, by: str, reason: str = "") -> None:
    await send(log, [await edit_of(log, parking, event, by, reason)])


async def request_discard(log: EventLog, parking: Parking, by: str, reason: str) -> None:
    await send(log, [await discard_of(log, parking, by, reason)])


async def preview_retries(log: EventLog, found: Sequence[Parking]) -> list[Preview]:
    return await preview_each(log, found, partial(Retry(decider="", key="").command, by="", reason=""))


async def preview_discards(log: EventLog, found: Sequence[Parking]) -> list[Preview]:
    return await preview_each(log, found, partial(discard_of, by="", reason="a preview"))


async def preview_edit(log: EventLog, parking: Parking, event: Event) -> Preview:
    (found,) = await preview_each(log, [parking], partial(edit_of, event=event, by="", reason=""), refuses=True)
    return found
