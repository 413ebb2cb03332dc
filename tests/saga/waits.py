"""How long orders have waited, and tasks were without an owner: read from the log alone."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition

from eventlib.log.kafka.options import parse_url
from eventlib.log.kafka.ownership_topic import PLACE, Task, task_of

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
