"""The JSON of what an operator asks for: the command line, the admin API and the console answer with the same."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from eventlib.json_form import json_of
from eventlib.model.event import Event, contract_of, key_of
from eventlib.model.personal import masked
from eventlib.model.record import key_text
from eventlib.replay.comparison import ABSENT, Change
from eventlib.values import iso, iso_ms, iso_or_none

if TYPE_CHECKING:
    from eventlib.operations.parked_groups import ParkedGroup
    from eventlib.operations.parked_preview import Preview
    from eventlib.operations.reprocessing.comparison import Difference
    from eventlib.operations.status import Status
    from eventlib.queries.parked import Parking, WaitingInput
    from eventlib.queries.pauses import Paused


def status_json(status: "Status", found: Sequence[str]) -> dict[str, object]:
    """Return the status of services as JSON."""
    return {
        "at": iso(status.at),
        "healthy": not found,
        "complaints": list(found),
        "tasks": [{**asdict(task), "handled_at": iso_or_none(task.handled_at)} for task in status.tasks],
        "said_per_s": dict(status.said_per_s),
        "parked": [parking_json(each) for each in status.parked],
        "sagas": None if status.sagas is None else [asdict(each) for each in status.sagas],
        "paused": [paused_json(each) for each in status.paused],
        "damaged": [str(each) for each in status.damaged],
        "lost": [asdict(each) for each in status.lost],
        "held": [{**asdict(each), "by": [by._asdict() for by in each.by]} for each in status.held],
        "faults": list(status.faults),
        "unanswered": [{**asdict(each), "since": iso(each.since)} for each in status.unanswered],
        "waiting": [{**asdict(each), "since": iso(each.since)} for each in status.waiting],
    }


def parking_json(parking: "Parking") -> dict[str, object]:
    """Return a parked key or effect as JSON."""
    return {**asdict(parking), "since": iso(parking.since), "command": parking.command}


def group_json(found: "ParkedGroup") -> dict[str, object]:
    """Return what is parked for one cause as JSON."""
    return {
        "cause": found.fingerprint,
        "service": found.service,
        "about": found.about,
        "parked": len(found.members),
        "inputs": found.inputs,
        "first": iso(found.first),
        "last": iso(found.last),
        "reasons": [*found.reasons],
        "code_versions": [*found.code_versions],
        "keys": [each.key for each in found.members],
        "remedy": found.remedy,
        "command": found.command,
    }


def waiting_json(parking: "Parking", waiting: "WaitingInput") -> dict[str, object]:
    """Return a waiting input as JSON: its origin, and its data."""
    record, reading = waiting.record, waiting.reading
    line: dict[str, object] = {
        "service": parking.service,
        "decider": parking.decider,
        "key": key_text(record),
        "topic": record.topic or None,
        "partition": record.partition,
        "offset": record.offset if record.topic else None,
        "recorded_at": iso_ms(record.timestamp_ms),
        "type": record.type,
        "id": record.event_id,
        "reason": waiting.reason,
        "edited": waiting.edited_by or None,
        "data": json_of(reading.value),
    }
    if reading.error is not None:
        line |= {"error": reading.error, "bytes": (record.value or b"").hex()}
    return line


def preview_json(found: "Preview", *, personal: bool = False) -> dict[str, object]:
    """Return a preview as JSON, with personal fields masked unless they may be seen."""
    parking = found.parking
    return {
        "service": parking.service,
        "decider": parking.decider,
        "key": parking.key,
        "partition": parking.partition,
        "effect": parking.effect,
        "id": parking.id,
        "prospect": found.prospect,
        "handled": found.handled,
        "waiting": found.waiting,
        "emitted": [event_json(each, personal=personal) for each in found.emitted],
        "requested": [*found.requested],
        "overdue": [event_json(each, personal=personal) for each in found.overdue],
        "reason": found.reason,
        "traceback": found.traceback,
        "doubt": found.doubt,
    }


def event_json(event: Event, *, personal: bool = False) -> dict[str, object]:
    """Return an event that would be emitted as JSON, with personal fields masked unless they may be seen."""
    return {
        "type": contract_of(type(event)).type,
        "key": key_of(event),
        "data": json_of(event if personal else masked(event)),
    }


def paused_json(paused: "Paused") -> dict[str, object]:
    """Return what is paused as JSON."""
    facts = asdict(paused)
    del facts["target"]
    return {**paused.target._asdict(), "kind": paused.target.kind, **facts, "since": iso(paused.since)}


def difference_json(service: str, name: str, found: "Difference") -> Iterable[dict[str, object]]:
    """Return the comparison, then each difference, one JSON object each."""
    yield {
        "service": service,
        "rerun": name,
        "same": found.is_none,
        "deciders": [asdict(each) for each in found.deciders],
        "requested": len(found.requested),
        "parked": len(found.parked),
        "not_yet": found.not_yet,
    }
    for event in found.events:
        facts = {**asdict(event), "at": iso_ms(event.at_ms), "changes": changes_json(event.changes)}
        yield {"difference": "event", **facts}
    for state in found.states:
        yield {"difference": "state", **asdict(state), "changes": changes_json(state.changes)}
    for kind, waiting in (("requested", found.requested), ("parked", found.parked)):
        for each in waiting:
            yield {"difference": kind, **asdict(each)}


def changes_json(changes: Iterable[Change]) -> list[dict[str, object]]:
    """Return what differs as JSON, field by field."""
    found = list[dict[str, object]]()
    for change in changes:
        sides = {"before": change.before, "after": change.after}
        found.append(
            {"field": change.path, **{side: json_of(value) for side, value in sides.items() if value is not ABSENT}}
        )
    return found
