"""Checks the shop's results: each order as the API reports it, and all events against the invariants."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from eventlib import Decider, Event, EventLog
from eventlib.errors import UndecodableRecord, UnknownKey
from eventlib.invariants import InvariantChecker, Violation, judged_by_events
from eventlib.queries import event_topics, in_order, state_of, tail
from services import shop
from services.smoke.asked import SmokeConfig, Smoked


def judge_ends(ended: Iterable[Mapping[str, Any]], config: SmokeConfig, found: Smoked) -> None:
    """Check each order's end against its amounts."""
    for each in ended:
        found.ends[each["status"]] = found.ends.get(each["status"], 0) + 1
        kept = each["taken_cents"] - each["refunded_cents"]
        due = each["amount_cents"] if each["status"] == "completed" else 0
        if kept != due:
            found.wrong.append(f"{each['order_id']}: {each['status']}, and {kept} instead of {due} cents are kept")
        if any(line["quantity"] > config.units for line in each["lines"]) and each["status"] != "cancelled":
            found.wrong.append(f"{each['order_id']}: more was sold than there is")
    if "completed" not in found.ends:
        found.wrong.append("no order was completed")


async def judge_log(log: EventLog, since: datetime, keys: Mapping[str, set[str]], found: Smoked) -> None:
    """Check all events and states of these keys against the invariants."""
    invariants = judged_by_events(shop.invariants)
    watch, violations = InvariantChecker(invariants), list[Violation]()
    records = [each async for chunk in tail(log.port, [t.name for t in event_topics(log)], since) for each in chunk]
    for record, event in await log.decode_many(in_order(records)):
        if isinstance(event, UndecodableRecord):
            found.wrong.append(str(event))
        elif event is not None and _is_about(event, keys):
            found.events += 1
            violations += watch.emitted(event, record.meta())
    for decider in {source for invariant in invariants for source in invariant.sources if isinstance(source, Decider)}:
        for key in keys.get(decider.key or "", ()):
            with suppress(UnknownKey):
                violations += watch.changed(decider, key, (await state_of(log, decider.name, key)).state)
    violations += watch.rest()
    found.wrong += {(each.invariant.name, each.key): str(each) for each in violations}.values()


def _is_about(event: Event, keys: Mapping[str, set[str]]) -> bool:
    return any(getattr(event, name, None) in known for name, known in keys.items())
