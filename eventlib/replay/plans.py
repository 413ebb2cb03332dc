"""How a service's deciders handle each event type now, looked up once; and what they decide on one input."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from eventlib.errors import UndecodableRecord
from eventlib.model.decider import Decider
from eventlib.model.event import Event, Meta, contract_of
from eventlib.model.record import Record
from eventlib.model.service import Service
from eventlib.replay.fast_path import FastPathComparer
from eventlib.replay.partition_buffer import Item
from eventlib.replay.scanner import LogScanner
from eventlib.replay.spilling_cache import SpillingCache


class Plan(NamedTuple):
    """How one decider handles one event type, looked up once; `handler` is `service/decider.handler`.

    An event is plain if it is internal and no request: then its id and saga are those of the cause, and the fast path
    applies.
    """

    decider: Decider[Any]
    entries: SpillingCache[Any]
    source: str
    handler: str
    wants_meta: bool
    is_request: bool
    is_plain: bool
    has_deadlines: bool
    fast_path: FastPathComparer | None


def plans_of(
    service: Service, entries: Mapping[str, SpillingCache[Any]], compares: LogScanner | None = None
) -> dict[str | None, list[Plan]]:
    """Return how a service's deciders handle each event type; with fast paths for one who `compares` what was emitted."""
    found: dict[str | None, list[Plan]] = {}
    for decider in service.deciders:
        for event_type in decider.handlers:
            found.setdefault(contract_of(event_type).type, []).append(
                _plan(service, decider, event_type, entries[decider.name], compares)
            )
    return found


def _plan(
    service: Service,
    decider: Decider[Any],
    event_type: type[Event],
    entries: SpillingCache[Any],
    compares: LogScanner | None,
) -> Plan:
    source, contract = f"{service.emits_as}/{decider.name}", contract_of(event_type)
    is_plain = not contract.request and contract.external is None
    fast = (
        None if compares is None or not is_plain else FastPathComparer(decider, event_type, source, entries, compares)
    )
    return Plan(
        decider,
        entries,
        source,
        f"{source}.{decider.handlers[event_type].name}",
        decider.wants_meta(event_type),
        contract.request,
        is_plain,
        decider.has_deadlines,
        fast,
    )


def decide_now(
    plan: Plan, state: Any, record: Record, event: Event | UndecodableRecord, *, answers: bool
) -> tuple[Any, Sequence[Event], Exception | None]:
    """Return the state after an input, the current code's outputs if wanted, and what it raises."""
    decider, now, failure = plan.decider, _NOTHING, None
    meta = record.meta() if plan.wants_meta else _NO_META
    try:
        if isinstance(event, UndecodableRecord):
            raise event  # noqa: TRY301  an extra call costs too much here
        state = decider.evolved(decider.initial if state is None else state, event, meta)
        if state is None and not decider.may_forget:
            raise decider.lost(event)  # noqa: TRY301  as above
        if answers:
            now = decider.answer(decider.initial if state is None else state, event, meta)
    except Exception as error:  # noqa: BLE001  whatever the current code raises is a difference
        failure = error.with_traceback(None)  # the traceback would keep this frame alive
    return state, now, failure


def change_by(
    plan: Plan, before: Any, state: Any, record: Record, saga: str | None, then: Sequence[Item]
) -> tuple[str | None, str | None] | None:
    """Return the event that changed a key, and its saga, after an input of a `saga`; None if nothing did.

    As the runtime has it: a state that an input leaves alone, with nothing emitted, is not written.
    """
    if then:
        last = then[-1][0]
        return last.event_id, last.correlation_id or saga
    is_same = state is (plan.decider.initial if before is None else before) or (state is None and before is None)
    return None if is_same and not plan.is_request else (record.event_id, saga)


_NOTHING: Sequence[Any] = ()
_NO_META = Meta("")
