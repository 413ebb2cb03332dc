"""How fast 1,000,000 products of 100 bytes are there: `python -m bench.globaltable [COUNT [ROUNDS]]`.

On a broker of its own, from compacted topics of 4 partitions: one with bare records, as others write them, and one with
events as this library writes them (CloudEvents headers). In turns, each in a process of its own: a GlobalTable,
a bare aiokafka consumer that keeps a dict, and a GlobalKTable of Kafka Streams. Prints a JSON
object: seconds and CPU seconds from nothing open to all there (medians), and the process's largest size in MB.
A process has been started and its modules or classes are loaded when time begins to count.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition

from bench.kafka_streams.program import java_command
from bench.sagas import cpu_s
from eventlib import Choreography, Event, GlobalTable, Topic, open_log
from eventlib.devtools.kafka import Cluster, ClusterConfig, running_cluster
from eventlib.external import Json
from eventlib.log.base import Log
from eventlib.model.record import Record
from eventlib.values import now_ms
from tests.apps.smallest import noting

_FAST = ("-Xmx1g", "-XX:+UseSerialGC")
_AT_ONCE = 5_000
_VALUE_BYTES = 100
_PREFIX = "products."
BARE = Topic("bare", partitions=4, compacted=True)
OWN = Topic("own", partitions=4, compacted=True)


class Bare(Event, topic=BARE, key="sku", external=Json()):
    """A product as others write it."""

    sku: str
    text: str


class Own(Event, topic=OWN, key="sku"):
    """A product as this library writes it."""

    sku: str
    text: str


CATALOGUE = Choreography("catalogue", [noting()], facts=[Bare, Own])
_KINDS: dict[str, type[Bare | Own]] = {"bare": Bare, "own": Own}


async def fill(url: str, count: int) -> None:
    """Write the products to both topics."""
    async with open_log(url, CATALOGUE) as log:
        await log.publish(Own(sku="0", text=""))  # its schema is known from now on
        text = json.dumps({"text": "x" * (_VALUE_BYTES - 12)}).encode()
        encoded = log.codec.encode(Own(sku="00000000", text="x" * (_VALUE_BYTES - 15)))
        for first in range(0, count, _AT_ONCE):
            numbers = range(first, min(first + _AT_ONCE, count))
            await _append(log.port, [_record(BARE, n, text) for n in numbers])
            await _append(log.port, [_event(n, encoded) for n in numbers])


async def _append(port: Log, records: list[Record]) -> None:
    await port.append(records)


def _record(topic: Topic, number: int, value: bytes) -> Record:
    key = b"%08d" % number
    return Record(topic.name, topic.partition_of(key), -1, now_ms(), key, value)


def _event(number: int, value: bytes) -> Record:
    made = _record(OWN, number, value[:6] + b"%08d" % number + value[14:])
    told = f"{number:032x}"
    return made.replace(id=told, type="Own", source="outside", correlation_id=told)


# --- each in a process of its own


async def table(url: str, kind: str, count: int) -> dict[str, float]:
    """Open a GlobalTable."""
    began, cpu = time.perf_counter(), cpu_s()
    async with open_log(url, CATALOGUE, read_only=True) as log:
        products = GlobalTable(log, _KINDS[kind])
        async with products:
            found = _found(began, cpu)
            assert len(products) >= count, len(products)
            assert products[f"{count - 1:08d}"].text.startswith("xxx")
            found["peak_mb"] = _peak_mb()
    return found


async def bare(url: str, kind: str, count: int) -> dict[str, float]:
    """Read the topic with aiokafka's consumer, as simply as it goes."""
    began, cpu = time.perf_counter(), cpu_s()
    address, prefix = url.removeprefix("kafka://").split("/?prefix=")
    consumer = AIOKafkaConsumer(bootstrap_servers=address, isolation_level="read_committed", enable_auto_commit=False)
    await consumer.start()
    places = [TopicPartition(prefix + kind, partition) for partition in range(4)]
    consumer.assign(places)
    await consumer.seek_to_beginning()
    products = dict[bytes, bytes]()
    while any([await consumer.position(place) < end for place, end in (await consumer.end_offsets(places)).items()]):
        for records in (await consumer.getmany(timeout_ms=1_000)).values():
            for record in records:
                products[record.key] = record.value
    found = _found(began, cpu)
    assert len(products) >= count
    found["peak_mb"] = _peak_mb()
    await consumer.stop()
    return found


def _found(began: float, cpu: float) -> dict[str, float]:
    return {"seconds": time.perf_counter() - began, "cpu_s": cpu_s() - cpu}


def _peak_mb() -> float:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1_024


# --- the run


def measured(*command: str) -> dict[str, float]:
    """Run a process, and return what it has measured."""
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def rounds(broker: Cluster, url: str, count: int, times: int) -> dict[str, Any]:
    """Measure all of them in turns, and return their medians."""
    found = dict[str, list[dict[str, float]]]()
    address = broker.url.removeprefix("kafka://").strip("/")
    peer = (*java_command("GlobalProducts", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"), address)
    for kind in _KINDS:
        me = (sys.executable, "-m", __spec__.name if __spec__ else "bench.globaltable")
        own = (url, kind, str(count))
        for _ in range(times):
            for name, command in {
                "table": (*me, "table", *own),
                "bare aiokafka": (*me, "bare", *own),
                "Kafka Streams, memory": (*peer, f"{_PREFIX}{kind}", str(count), "memory"),
                "Kafka Streams, RocksDB": (*peer, f"{_PREFIX}{kind}", str(count), "rocksdb"),
            }.items():
                found.setdefault(f"{kind}: {name}", []).append(measured(*command))
    return {
        name: {key: round(median(each[key] for each in theirs), 2) for key in theirs[0]}
        for name, theirs in found.items()
    }


def main(arguments: list[str]) -> None:
    """Do one thing in a process of its own, or the whole run."""
    match arguments:
        case ["table", url, kind, count]:
            print(json.dumps(asyncio.run(table(url, kind, int(count)))))
        case ["bare", url, kind, count]:
            print(json.dumps(asyncio.run(bare(url, kind, int(count)))))
        case _:
            products, times = int(next(iter(arguments), 1_000_000)), int(next(iter(arguments[1:]), 3))
            with running_cluster(ClusterConfig(java_options=_FAST)) as broker:
                url = f"{broker.url}/?prefix={_PREFIX}"
                asyncio.run(fill(url, products))
                print(
                    json.dumps({**rounds(broker, url, products, times), "load_average": os.getloadavg()[0]}, indent=1)
                )


if __name__ == "__main__":
    main(sys.argv[1:])
