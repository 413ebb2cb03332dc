"""Records a version's log: runs its services on its story, and writes down every record of every topic.

`python -m tests.golden.contracts.record first` makes first.ndjson. A recorded log is never made anew: it stands for
those that are out there. A new version of the post gets a module and a log of its own.
"""

import asyncio
import importlib
import json
import sys
from pathlib import Path
from typing import Any

from eventlib import EventLog, Runtime, open_log
from eventlib.log.base import Log
from eventlib.model.record import Record
from eventlib.registry.records import SCHEMAS

HERE = Path(__file__).parent
VERSIONS = ("first", "second", "third")


async def record(version: str) -> None:
    """Run a version of the post, and write its log."""
    module = importlib.import_module(f"tests.golden.contracts.{version}")
    async with open_log("memory://", module.post) as log:
        for number, event in enumerate(module.story()):
            await log.publish(event, idempotency_key=str(number))
        async with Runtime(log) as runtime:
            await runtime.idle()
        lines = [json.dumps(_plain(record)) for record in await everything(log)]
    (HERE / f"{version}.ndjson").write_text("\n".join(lines) + "\n")


async def everything(log: EventLog) -> list[Record]:
    """Return every record of a log, topic by topic."""
    found = list[Record]()
    for name, topic in sorted((await log.port.topics()).items()):
        for partition in range(topic.partitions):
            found += await log.port.read(name, partition, 0, 10_000)
    return found


async def load(version: str, port: Log, log: EventLog) -> None:
    """Put a recorded log on an empty one."""
    await port.create_topics([SCHEMAS, *log.choreography.topics])
    with (HERE / f"{version}.ndjson").open() as lines:
        for line in lines:
            await port.append([_record(json.loads(line))])


def _plain(record: Record) -> dict[str, Any]:
    plain = record.asdict()
    plain["headers"] = [[name, value.hex()] for name, value in record.headers]
    for name in ("key", "value"):
        plain[name] = None if plain[name] is None else plain[name].hex()
    return {name: value for name, value in plain.items() if value is not None}


def _record(plain: dict[str, Any]) -> Record:
    for name in ("key", "value"):
        plain[name] = bytes.fromhex(plain[name]) if name in plain else None
    plain["headers"] = tuple((name, bytes.fromhex(value)) for name, value in plain["headers"])
    return Record(**plain)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        asyncio.run(record(name))
