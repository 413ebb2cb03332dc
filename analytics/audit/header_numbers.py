"""The numbers that tell whether headers may break a rule: worked out in workers, a column at a time."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from analytics.audit.application import Application
from analytics.audit.graph import Graph
from analytics.hashing import Hashes, hashes, numbers_of, partitions_of
from eventlib.model.event import contract_of

BITS = 63  # of a number, without its sign
ANY = -1  # all bits
LONG_AGO, NEVER = np.iinfo(np.int64).min, np.iinfo(np.int64).max

OF_ID = np.dtype([("id", "u8"), ("saga", "u8"), ("at", "i8"), ("kinds", "i8"), ("is", "u1")])
CAUSE, EFFECT, EMITTED, ANSWER = 1, 2, 4, 8  # bits of "is"
OF_TURN = np.dtype([("emitter", "u8"), ("at", "i8"), ("sequence", "i8"), ("forgets", "?")])

Rows = NDArray[np.void]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


def emitters_of(batch: pa.RecordBatch) -> Hashes:
    """Return numbers of the emitters of records; as `_emitters_names` has them by name."""
    return hashes(batch["subject"]) * np.uint64(31) + hashes(batch["source"].cast(pa.string()))


class HeaderNumbers:
    """Works out the numbers of a batch of records."""

    def __init__(self, application: Application, graph: Graph) -> None:
        choreography = application.choreography
        self._graph = graph
        self._topics = {topic.name: topic for topic in choreography.topics}
        self._bits = {kind: 1 << n for n, kind in enumerate(sorted(graph.topics)[:BITS])}
        self._causes = _causes(graph, self._bits)
        effects = [effect for decider in choreography.deciders for effect in decider.effects.values()]
        self._answers = {contract_of(event).type for effect in effects for event in effect.emits}

    def is_emitted(self, batch: pa.RecordBatch) -> Flags:
        """Return which events a service has emitted."""
        return numbers_of(batch["source"], lambda source: source in self._graph.sources, missing=False) > 0

    def of_ids(self, batch: pa.RecordBatch, is_emitted: Flags) -> Rows:
        """Return the rows of events under their ids, and under those of their causes.

        `kinds` has a bit for each type: an event's own, and those that its cause may have. A type too many has none, so that
        it is always in doubt.
        """
        saga, kinds = hashes(batch["correlation_id"]), batch["type"]
        causes = np.zeros(batch.num_rows, OF_ID)
        causes["id"], causes["at"], causes["is"] = hashes(batch["id"]), batch["at_ms"].to_numpy(), CAUSE
        causes["saga"] = np.where(numbers_of(kinds, lambda kind: kind in self._graph.requests, missing=0) > 0, 0, saga)
        causes["kinds"] = numbers_of(kinds, lambda kind: self._bits.get(kind, 0), missing=0)
        effects = np.zeros(batch.num_rows, OF_ID)
        effects["id"], effects["at"] = hashes(batch["causation_id"]), causes["at"]
        effects["saga"] = np.where(is_emitted, saga, 0)
        is_answer = numbers_of(kinds, lambda kind: kind in self._answers, missing=0)
        effects["is"] = EFFECT + is_emitted * EMITTED + is_answer * ANSWER
        entries = numbers_of(kinds, lambda kind: ANY if kind in self._graph.entries else 0, missing=0)
        effects["kinds"] = np.where(is_emitted, self._possible(batch), entries)
        rows: Rows = np.concatenate([causes, effects])
        named: Rows = rows[rows["id"] != 0]
        return named

    def of_turns(self, batch: pa.RecordBatch, is_emitted: Flags) -> Rows:
        """Return the rows of events that were emitted, under their emitters."""
        rows = np.zeros(batch.num_rows, OF_TURN)
        rows["emitter"] = emitters_of(batch)
        rows["at"], rows["sequence"] = batch["at_ms"].to_numpy(), batch["sequence"].fill_null(-1).to_numpy()
        rows["forgets"] = numbers_of(batch["source"], lambda source: source in self._graph.forgetting, missing=0)
        emitted: Rows = rows[is_emitted]
        return emitted

    def is_any_uncaused(self, batch: pa.RecordBatch, is_emitted: Flags) -> bool:
        """Tell whether an event names no cause, and is none that comes from outside."""
        is_entry = numbers_of(batch["type"], lambda kind: kind in self._graph.entries, missing=0) > 0
        is_uncaused = batch["causation_id"].is_null().to_numpy(zero_copy_only=False)
        return bool((is_uncaused & (is_emitted | ~is_entry)).any())

    def is_any_misplaced(self, batch: pa.RecordBatch) -> bool:
        """Tell whether an event is on another topic than its type's, or in another partition than its key's."""
        names = sorted({*self._topics, *self._graph.topics.values()})
        places = {name: n for n, name in enumerate(names)}
        topics = numbers_of(batch["topic"], lambda topic: places.get(topic, -1))
        own = numbers_of(batch["type"], lambda kind: places.get(self._graph.topics.get(kind, ""), -1))
        if ((own >= 0) & (own != topics)).any():
            return True
        partitions = batch["partition"].to_numpy()
        has_key = batch["key"].is_valid().to_numpy(zero_copy_only=False)
        for number in np.unique(topics[topics >= 0]).tolist():
            topic, rows = self._topics.get(names[number]), np.flatnonzero((topics == number) & has_key)
            if (
                topic is not None
                and (partitions_of(topic, batch["key"].take(pa.array(rows))) != partitions[rows]).any()
            ):
                return True
        return False

    def _possible(self, batch: pa.RecordBatch) -> Ints:
        """Return the bits of the types that may have led its source to emit an event of its type."""
        sources = {name: n for n, name in enumerate(sorted(self._graph.sources))}
        kinds = {name: n for n, name in enumerate(sorted(self._graph.topics))}
        known = np.zeros((len(sources) + 1, len(kinds) + 1), np.int64)  # nothing for others, which come last
        for (source, kind), bits in self._causes.items():
            known[sources[source], kinds[kind]] = bits
        by_source = numbers_of(batch["source"], lambda name: sources.get(name, -1))
        found: Ints = known[by_source, numbers_of(batch["type"], lambda name: kinds.get(name, -1))]
        return found


def _causes(graph: Graph, bits: Mapping[str, int]) -> Mapping[tuple[str, str], int]:
    """Return the bits of the types that may have led a source to emit a type."""
    known = dict[tuple[str, str], int]()
    for source, cause, kind in graph.steps:
        known[source, kind] = known.get((source, kind), 0) | bits.get(cause, 0)
    return {**known, **dict.fromkeys(graph.late, ANY)}
