"""The whole examination of a log, of any kind."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from eventlib.contracts.view_manifest import Viewing
from eventlib.errors import EventlibError, WiringError
from eventlib.eventlog import EventLog
from eventlib.log.open import open_port
from eventlib.model.choreography import Choreography
from eventlib.model.event import contract_of
from eventlib.model.topic import Topic
from eventlib.opening import open_log
from eventlib.operations.doctor.content import examine_keys, examine_task_times, examine_times, examine_topics
from eventlib.operations.doctor.disk import examine_stores
from eventlib.operations.doctor.finding import Diagnosis, error, fine, warning
from eventlib.operations.doctor.sqlite import examine_file
from eventlib.operations.input_health import held_inputs, input_losses
from eventlib.queries.pauses import pauses_in
from eventlib.queries.task_metadata import TaskNotes
from eventlib.registry.records import SCHEMAS


async def examine(
    url: str, choreography: Choreography, state_dir: str, views: Sequence[Viewing] = ()
) -> list[Diagnosis]:
    """Examine all that a choreography's services and their live views need, in the order in which they would fail.

    Guarantee: nothing is changed, not even what could be repaired. Raises: WiringError for an invalid URL.
    """
    topics = [*choreography.topics, SCHEMAS]
    match url.partition("://"):
        case "sqlite", "://", rest:
            found = await asyncio.to_thread(examine_file, Path(rest.removeprefix("/")))
        case "kafka", "://", _:
            try:
                from eventlib.operations.doctor.kafka import examine_kafka
            except ModuleNotFoundError as missing:
                raise WiringError(
                    f"a kafka log needs the package {missing.name}: install eventlib-sagas[kafka]"
                ) from missing
            found = [*await examine_kafka(url, choreography, topics, views), examine_stores(state_dir)]
        case _ if url.startswith("archive:"):
            found = []  # it has no process and no settings: its content is examined below
        case _:
            raise WiringError(f"the log {url!r} cannot be examined from outside its process: name one with --log")
    if not any(_keeps_from_reading(each) for each in found):
        found += await _examine_content(url, choreography, topics)
    return found


def _keeps_from_reading(each: Diagnosis) -> bool:
    if each.check == "file":  # not created yet, or cannot be opened
        return each.verdict == "error" or "yet" in each.what
    return each.verdict == "error" and each.check not in {"topics", "clock", "lock", "local stores"}


async def _examine_tasks(url: str, choreography: Choreography) -> list[Diagnosis]:
    async with open_log(url, choreography, read_only=True) as log:
        notes = TaskNotes(log)
        await notes.refresh()
        of_tasks = [*await examine_task_times(notes), *await _examine_pauses(log, notes)]
        return [*of_tasks, *await examine_inputs(log, notes)]


async def _examine_pauses(log: EventLog, notes: TaskNotes) -> list[Diagnosis]:
    """Find what operators have paused, lest it is forgotten."""
    found = await pauses_in(log, notes)
    return [
        warning(
            "pauses",
            f"{each.target} {each.state} since {each.since:%Y-%m-%d %H:%M:%S} UTC, by {each.by}: {each.reason}",
            f"`eventlib resume {each.target.service}` ends that, with the same names",
        )
        for each in found
        if not each.is_ending
    ]


async def examine_inputs(log: EventLog, notes: TaskNotes) -> list[Diagnosis]:
    """Find inputs that are gone before services have read them, and those that open transactions hide."""
    lost, held = await input_losses(log, notes), await held_inputs(log)
    found = [
        (warning if each.is_noted else error)("inputs", f"{each.service} has lost inputs: {each.what}", each.remedy)
        for each in lost
    ]
    found += [warning("inputs", each.what, _END_IT) for each in held]
    return found or [fine("inputs", "every service can read what it has not read yet")]


_END_IT = (
    "it is over in moments, unless its writer hangs: then end that process, or abort the transaction with "
    "`kafka-transactions.sh abort`"
)


async def _examine_content(url: str, choreography: Choreography, topics: Sequence[Topic]) -> list[Diagnosis]:
    try:
        log = await open_port(url)
        try:
            there = await log.topics()
            emitted = {contract_of(event).topic.name for event in choreography.events} & there.keys()
            holding = [there[name] for name in sorted(emitted)]
            times, keys = await examine_times(log, holding), await examine_keys(log, holding)
        finally:
            await log.close()
        noted = await _examine_tasks(url, choreography) if SCHEMAS.name in there else []
        return [*examine_topics(there, topics), times, *keys, *noted]
    except EventlibError as trouble:
        return [error("log", str(trouble), "fix the errors above, and run this again")]
