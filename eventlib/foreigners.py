"""The foreign topics of a choreography: their records as events, each under its own key and in its own partition."""

import re
from collections.abc import Iterable

from eventlib.errors import ContractError, EventlibError
from eventlib.event import Contract, Event, Foreign, contract_of, key_of
from eventlib.identity import derived_id, root_traceparent
from eventlib.log.port import Record, key_text, undecodable
from eventlib.times import LATEST, to_ms

_TRACEPARENT = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_LATEST_MS = to_ms(LATEST) - 1


class Foreigners:
    """Which topics others write, and how to read them; `traced_below` bounds the ids of their traces that are recorded."""

    def __init__(self, events: Iterable[type[Event]], traced_below: str) -> None:
        self._traced_below = traced_below
        self._classes: dict[str, tuple[type[Event], Foreign]] = {}
        for event in events:
            contract = contract_of(event)
            if contract.foreign is not None:
                self._classes[contract.topic.name] = event, contract.foreign
        self.topics = frozenset(self._classes)

    def type_of(self, record: Record) -> str | None:
        """Return the type of the event in a record: its class's on a foreign topic, else what its header says."""
        found = self._classes.get(record.topic)
        return record.type if found is None else contract_of(found[0]).type

    def decode(self, record: Record) -> Event:
        """Return the event in a record of a foreign topic. Raises: UndecodableRecord."""
        event_type, foreign = self._classes[record.topic]
        if record.value is None:
            raise undecodable(record, f"the record has no value, so it is no {event_type.__name__}")
        if not -1 <= record.timestamp_ms <= _LATEST_MS:
            raise undecodable(
                record, f"its timestamp {record.timestamp_ms} is not in milliseconds since 1970, before {LATEST:%Y}"
            )
        try:
            key = None if record.key is None else key_text(record)
            return foreign.decode(event_type, record.value, key)
        except EventlibError as error:
            raise undecodable(record, str(error)) from error
        except Exception as error:  # a decoder of somebody's own
            raise undecodable(record, f"{type(error).__name__}: {error!s:.300}") from error

    def settled(self, record: Record, event: Event) -> Record:
        """Return a record as if one of ours had written it: under its event's key, with a trace that is one.

        Raises: UndecodableRecord, with the remedy, when that key belongs in another partition.
        """
        contract = contract_of(type(event))
        try:
            key = key_of(event)
        except ContractError as error:
            raise undecodable(record, str(error)) from error
        if key is not None:
            self._refuse_misplaced(record, key, contract)
        traceparent = record.traceparent
        if traceparent is None or not _TRACEPARENT.fullmatch(traceparent):
            trace_id = derived_id("foreign", record.topic, str(record.partition), record.offset)
            traceparent = root_traceparent(trace_id, self._traced_below)
        return record._replace(key=None if key is None else key.encode(), traceparent=traceparent)

    def _refuse_misplaced(self, record: Record, key: str, contract: Contract) -> None:
        topic = contract.topic
        home = topic.partition_of(key.encode())
        others = topic.partitions > 1 and record.key is not None and key_text(record) != key
        if home == record.partition and not others:
            return
        if others:
            found = f"its records have another key ({key_text(record)!r} here, where {contract.key} is {key!r})"
        else:
            found = f"{contract.key} {key!r} belongs in partition {home}, and is in {record.partition}"
        raise undecodable(
            record,
            f"topic {topic.name} is not partitioned by {contract.key}: {found}. One key would be split over tasks. "
            f"Declare {contract.type} with key=None, and let a decider with key=None say events of yours under "
            f"{contract.key}; or name the writer's partitioner on the Topic",
        )
