"""What consumers of a simulated world have to get, and what they have got."""

from collections.abc import Iterator, Sequence

from eventlib.invariants import Violation
from eventlib.model.record import Record
from eventlib.simulation.invariant_monitor import broken, of_the_log

DELIVERED = of_the_log("events_reach_consumers", "Each event that a sink or a subscriber asks for comes to it.")
ASKED = of_the_log("consumers_get_what_they_ask_for", "No other events come to a sink or a subscriber.")
ORDER = of_the_log("consumers_get_keys_in_order", "A key's events first come to a sink or a subscriber in their order.")
ONCE = of_the_log("sinks_count_once", "Each event counts once in a sink's rows.")

Location = tuple[str, int, int]
"""Topic, partition and offset of an event."""


class Receipts:
    """The events that one consumer gets; `once` of one that may not get any twice."""

    def __init__(self, name: str, *, once: bool) -> None:
        self.name = name
        self._once = once
        self._expected = dict[Location, tuple[str, int, bytes | None]]()
        self._lanes = dict[tuple[str, int, bytes | None], list[Location]]()
        self._by_id = dict[str, list[Location]]()
        self._taken = set[Location]()

    @property
    def missing(self) -> list[Location]:
        """The events that have not come yet."""
        return [location for location in self._expected if location not in self._taken]

    def expect(self, records: Sequence[Record]) -> None:
        """Take note of events for it that are on the log now."""
        for record in records:
            location, lane = record.location, (*record.topic_partition, record.key)
            self._expected[location] = lane
            self._lanes.setdefault(lane, []).append(location)
            self._by_id.setdefault(record.event_id, []).append(location)

    def take(self, event: Location | str) -> Iterator[Violation]:
        """Take note of an event that has come, by its location or its id, and return the violations."""
        location = self._location(event) if isinstance(event, str) else event
        if location is None or location not in self._expected:
            yield broken(ASKED, self.name, f"{event} came, and is not for it")
            return
        what = "{}/{}/{}".format(*location)
        if location in self._taken:
            if self._once:
                yield broken(ONCE, self.name, f"{what} counts twice")
            return
        self._taken.add(location)
        lane = self._expected[location]
        before = [each for each in self._lanes[lane] if each < location and each not in self._taken]
        if lane[2] is not None and before:
            yield broken(ORDER, self.name, f"{what} came before {'{}/{}/{}'.format(*before[0])}, which has its key")

    def _location(self, event_id: str) -> Location | None:
        """Return which of the records with an id it is: a request can be on the log twice. None for an event that is not for it."""
        known = self._by_id.get(event_id)
        if known is None:
            return None
        return next((each for each in known if each not in self._taken), known[-1])
