"""Inputs that are gone before a task has read them: named, and passed over in a transaction that says so."""

import logging
from collections.abc import Collection, Mapping

from eventlib.log.base import Log, TopicIdentity, TopicPartition
from eventlib.log.losses import RECREATED
from eventlib.runtime.records import LOG, Positions
from eventlib.runtime.transaction import Loss

Gaps = Mapping[TopicPartition, tuple[int, int]]
"""Positions that are not on the log, each with where a reader went on: see `Reader.take_lost`."""

_log = logging.getLogger("eventlib.runtime")


async def losses_of(
    log: Log, partition: int, positions: Positions, gaps: Gaps, identities: Mapping[str, TopicIdentity]
) -> list[Loss]:
    """Return what a task's next transaction has to pass over. Raises: LogUnavailable."""
    found = list[Loss]()
    for topic, at in positions.next.items():
        known, place = identities.get(topic), (topic, partition)
        if known is None:
            continue
        if is_another(topic, known, positions):
            start = await log.log_start(*place)
            to = start if log.numbers_again else max(start, at)
            found.append(_loss(place, at, to, RECREATED, known))
        elif place in gaps and gaps[place][0] < gaps[place][1] and at < gaps[place][1]:
            what = f"retention, or an operator, has dropped offsets {at} to {gaps[place][1] - 1} before they were read"
            found.append(_loss(place, at, gaps[place][1], what, known))
        elif place in gaps and at > gaps[place][1]:
            what = "the topic has lost its end, with records that were handled"
            found.append(_loss(place, at, gaps[place][1], what, known))
    return found


def is_another(topic: str, now: TopicIdentity, positions: Positions) -> bool:
    """Return whether a topic is another one than the one that a task has read; False when one of the two is not known."""
    before = positions.ids.get(topic)
    return bool(before and now.id) and positions.ids.get(LOG) == now.log and now.id != before


def with_ids(positions: Positions, identities: Mapping[str, TopicIdentity]) -> Positions:
    """Return positions with the identities of topics that have none: an older release, or another log, wrote them."""
    log = next((each.log for each in identities.values() if each.id), positions.ids.get(LOG, ""))
    ids = positions.ids if positions.ids.get(LOG) == log else {}  # a copy keeps offsets, and has topics of its own
    new = {name: each.id for name, each in identities.items() if each.id and name not in ids}
    return positions.with_facts(ids={**ids, LOG: log, **new}) if new else positions


def tell(task: str, losses: Collection[Loss]) -> None:
    """Warn of what a task has passed over."""
    for loss in losses:
        _log.warning("%s: %s", task, loss.why)


def _loss(place: TopicPartition, at: int, to: int, why: str, now: TopicIdentity) -> Loss:
    return Loss(place[0], at, to, f"{place[0]}/{place[1]}: {why}; the task was at {at}, and continues at {to}", now.id)
