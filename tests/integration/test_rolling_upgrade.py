"""A rolling upgrade of all services while orders come in: tasks are handed over, and the invariants hold."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from eventlib.devtools.kafka import Cluster
from eventlib.log.kafka.options import parse_url
from eventlib.log.kafka.ownership_topic import PLACE, Task, task_of
from services import shop as the_shop
from tests.integration.upgraded import NAMES, PART, Upgraded

_ENDINGS = {"OrderCompleted", "OrderCancelled"}


@dataclass
class Waits:
    """What each order has taken from its request to its end, by how many were placed before it; and each step (s).

    `steps` are the times from a fact to what was said because of it, with what that was.
    """

    orders: list[float] = field(default_factory=list)
    steps: list[tuple[float, str]] = field(default_factory=list)

    @classmethod
    def of(cls, records: Iterable[dict[str, Any]]) -> "Waits":
        """Return what the records of `eventlib tail --json` tell."""
        asked, ended, caused = dict[str, float](), dict[str, float](), list[tuple[str, float, str, str]]()
        at_of = dict[str, float]()
        for record in records:
            at, kind, order = _seconds(record["recorded_at"]), record["type"], record["data"].get("order_id", "")
            at_of[record["id"]] = at
            if kind == "OrderSubmitted":
                asked[order] = at
            elif kind in _ENDINGS:
                ended[order] = at
            if record["causation_id"] is not None and order:
                caused.append((record["causation_id"], at, kind, order))
        in_turn = sorted(asked, key=lambda order: asked[order])
        rank = {order: turn for turn, order in enumerate(in_turn)}
        found = cls([ended[order] - asked[order] for order in in_turn])
        found.steps = [(0.0, "")] * len(in_turn)
        for cause, at, kind, order in caused:
            step = at - at_of[cause], kind
            found.steps[rank[order]] = max(found.steps[rank[order]], step)
        return found


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


class Handover(NamedTuple):
    """A task's way from one owner to the next: when it was let go (None: it was taken), and for how long nobody had it."""

    task: Task
    let_go_ms: int | None
    without_s: float


def handovers(url: str) -> list[Handover]:
    """Return all changes of owners on a log, as its register of them tells."""
    return [*_handovers(asyncio.run(_register(url)))]


def _handovers(entries: Iterable[tuple[str, dict[str, Any]]]) -> Iterator[Handover]:
    last = defaultdict[Task, list[dict[str, Any]]](list)
    for key, content in entries:
        if key.startswith("wish:"):
            continue
        task = task_of(key)
        before = last[task][-1] if last[task] else None
        if before is not None and "writer" in content:
            let_go_ms = before["at_ms"] if "released" in before else None
            without_s = 0.0 if let_go_ms is None else (content["at_ms"] - let_go_ms) / 1_000
            yield Handover(task, let_go_ms, without_s)
        last[task].append(content)


async def _register(url: str) -> list[tuple[str, dict[str, Any]]]:
    hosts, options = parse_url(url)
    register = TopicPartition(f"{options.prefix}{PLACE[0]}", PLACE[1])
    found = list[tuple[str, dict[str, Any]]]()
    async with AIOKafkaConsumer(bootstrap_servers=hosts, isolation_level="read_committed") as consumer:
        consumer.assign([register])
        await consumer.seek_to_beginning()
        end = (await consumer.end_offsets([register]))[register]
        while await consumer.position(register) < end:
            for records in (await consumer.getmany(timeout_ms=1_000)).values():
                found += [(record.key.decode(), json.loads(record.value or b"{}")) for record in records]
    return found


TASKS = sum(service.partitions for service in the_shop.services)


@pytest.mark.extended
def test_each_service_is_replaced_its_new_process_before_its_old_one_stops(tmp_path: Path, broker: Cluster) -> None:
    shop = Upgraded(tmp_path, broker, steps=2 * len(NAMES))
    with shop.importing():
        shop.start(*(f"{name} old" for name in NAMES))
        shop.orders_come()
        for name in NAMES:
            shop.start(f"{name} new")
            shop.orders_come()  # while the new one gets its share
            shop.orders_come()
            shop.stop(f"{name} old")
    check(shop, handed_over=TASKS)


@pytest.mark.slow
def test_each_process_of_two_is_replaced_as_a_stateful_set_does_it(tmp_path: Path, broker: Cluster) -> None:
    pairs = [[f"{name} {number}" for number in (1, 2)] for name in NAMES]
    shop = Upgraded(tmp_path, broker, steps=2 * 2 * len(NAMES))
    with shop.importing():
        shop.start(*(each for pair in pairs for each in pair))
        shop.orders_come()
        for each in (each for pair in pairs for each in reversed(pair)):
            shop.orders_come()
            shop.stop(each)
            shop.start(each)
            shop.orders_come()
    check(shop, handed_over=TASKS)


def check(shop: Upgraded, *, handed_over: int) -> None:
    """Check the invariants, and that tasks were handed over; print what that has cost."""
    waits = Waits.of(map(json.loads, shop.check()))
    changes = [change for change in handovers(shop.log.url) if change.task[0] in NAMES]
    for what, part in (("before", slice(PART)), ("during", slice(PART, None))):
        orders, steps = waits.orders[part], waits.steps[part]
        print(
            f"{what} the upgrade: {len(orders)} orders, from request to end {median(orders):.2f} s in the middle and "
            f"{max(orders):.2f} s at most; the longest step {max(steps)[0]:.2f} s, to {max(steps)[1]}"
        )
    without = [change.without_s for change in changes if change.let_go_ms is not None]
    found = f"{len(without)} of {len(changes)} changes of owners were handed over"
    print(f"{found}; nobody had the task for {median(without):.2f} s then, {max(without):.2f} s at most")
    assert len(changes) >= handed_over
    assert len(without) > len(changes) // 2, "tasks were taken from their owners"
