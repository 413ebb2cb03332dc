"""The floor of a saga: what its decisions cost when nothing but the loop is around them. Prints JSON, in µs of CPU a saga.

`python -m bench.floors LOG` reads a finished log of `bench.sagas`, hands every event to its deciders in the order of causes,
and keeps their states in a dict: deciding alone, then with the emitted events encoded, with the states, with each input decoded.
"""

import asyncio
import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import process_time
from typing import Any

from eventlib import Decider, Event, EventLog, Meta, open_log
from eventlib.log.reading import chunks
from eventlib.model.event import contract_of
from eventlib.model.record import Record
from services import shop

TURNS = 5
LOOPS = {"decide": 0, "and_encode_events": 1, "and_encode_states": 2, "and_decode_inputs": 3}
"""What each loop does beside deciding: so many of the three others."""

Input = tuple[Record, Any, Meta, Sequence[Decider[Any]]]


async def inputs_of(log: EventLog) -> list[Input]:
    """Return each event that a decider handles, behind its cause."""
    handled = defaultdict[str, list[Decider[Any]]](list)
    for decider in (decider for service in shop.services for decider in service.deciders):
        for event_type in decider.handlers:
            handled[contract_of(event_type).type].append(decider)
    found = dict[str, Record]()
    for topic in shop.topics:
        for partition in range(topic.partitions):
            async for records in chunks(log.port, (topic.name, partition), 0):
                found.update((record.event_id, record) for record in records if record.type in handled)
    caused = defaultdict[str, list[Record]](list)
    for record in found.values():
        caused[record.causation_id if record.causation_id in found else ""].append(record)
    wave, ordered = caused[""], list[Record]()
    while wave:
        ordered += wave
        wave = [effect for cause in wave for effect in caused[cause.event_id]]
    return [(each, await log.decode_now(each), each.meta(), handled[each.type or ""]) for each in ordered]


def run(log: EventLog, inputs: Sequence[Input], does: int) -> float:
    """Return the CPU seconds of handling all inputs."""
    encode, decode, states = log.codec.encode, log.decode, dict[tuple[str, bytes | None], Any]()
    began = process_time()
    for record, known, meta, deciders in inputs:
        event: Any = decode(record) if does > 2 else known
        for decider in deciders:
            name = decider.name, record.key
            before = states.get(name, decider.initial)

            def emitted_meta(_emitted: Sequence[Event], _ordinal: int, meta: Meta = meta) -> Meta:
                return meta

            state, emitted = decider.decide(before, event, meta, emitted_meta)
            if does:
                for each in emitted:
                    encode(each)
            if state is not before:
                states[name] = state
                if does > 1:
                    encode(state)
    return process_time() - began


async def measure(path: Path) -> Mapping[str, float]:
    """Return the median of each loop, in turns (µs a saga)."""
    async with open_log(f"sqlite:///{path}", shop, read_only=True) as log:
        states = [(service.changelog.name, decider.state) for service in shop.services for decider in service.deciders]
        await log.codec.prepare([*((contract_of(each).topic.name, each) for each in shop.events), *states])
        inputs = await inputs_of(log)
        sagas = sum(record.type == "OrderSubmitted" for record, *_ in inputs)
        turns = [{name: run(log, inputs, does) for name, does in LOOPS.items()} for _ in range(TURNS)]
    return {name: statistics.median(turn[name] for turn in turns) / sagas * 1e6 for name in LOOPS}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(Path(sys.argv[1])))))
