"""Trends by hour: bars to scale, from the index, each with a link to the sagas of its hour."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from eventlib.console.reading import records_behind
from eventlib.console.rendering import lasting, path_of
from eventlib.index.hours import HOUR_MS, Hour, hours_of
from eventlib.index.log_index import LogIndex
from eventlib.index.tables import Declared
from eventlib.model.choreography import Choreography
from eventlib.values import from_ms, iso_ms, now_ms, snake_case

SPANS = {"day": 24, "week": 168}
"""How many hours a picture has, by its name."""
_CAUSES = 5


@dataclass(frozen=True, slots=True)
class Series:
    """One picture: a bar for each hour, of which a part is darker (`inner`); a full bar is `most`."""

    name: str
    about: str
    bars: Sequence[int]
    inner: Sequence[int] = ()
    shown: Callable[[int], str] = "{:,}".format

    @property
    def most(self) -> int:
        """The largest bar."""
        return max(self.bars)

    def text(self, at: int) -> str:
        """Return what a bar says."""
        return (
            f"{self.shown(self.inner[at])} / {self.shown(self.bars[at])}" if self.inner else self.shown(self.bars[at])
        )


@dataclass(frozen=True, slots=True)
class Trend:
    """The hours up to now, the last of them going on, and their pictures. Of `unknown` bars the index has not read all.

    `causes` are those for which the most was parked: service, decider and kind of reason, each with its count.
    """

    hours: Sequence[Hour]
    series: Sequence[Series]
    causes: Sequence[tuple[tuple[str, str, str], int]]
    unknown: Collection[int]
    behind: int

    @property
    def times(self) -> Sequence[datetime]:
        """When each hour begins."""
        return [from_ms(each.sagas.hour * HOUR_MS) for each in self.hours]

    @property
    def lines(self) -> Sequence[int]:
        """The bars of hours with anything, the newest first."""
        known = [at for at in range(len(self.hours)) if at not in self.unknown]
        return [at for at in reversed(known) if any(each.bars[at] for each in self.series)]


async def trend(index: LogIndex, span: str) -> Trend:
    """Return the last hours of a span."""
    last, behind = now_ms() // HOUR_MS, await records_behind(index)
    hours = hours_of(index.rows, last - SPANS[span] + 1, last)
    causes = Counter[tuple[str, str, str]]()
    for each in hours:
        causes.update(each.parked)
    series = [
        Series("Started", "sagas", [each.sagas.started for each in hours]),
        Series("Completed", "sagas that ended well", [each.sagas.completed for each in hours]),
        Series("Failed", "sagas that ended in failure", [each.sagas.failed for each in hours]),
        Series("Compensated", "ended sagas with a compensation", [each.sagas.compensated for each in hours]),
        Series("Parked", "inputs and effects", [sum(each.parked.values()) for each in hours]),
        Series(
            "Duration",
            "of sagas that ended: p50, and p99 paler",
            [each.p99_ms or 0 for each in hours],
            [each.p50_ms or 0 for each in hours],
            lasting,
        ),
    ]
    since = await _kept_since(index)
    unknown = {
        at
        for at, each in enumerate(hours)
        if behind or (each.sagas.hour * HOUR_MS < since and not any(one.bars[at] for one in series))
    }
    return Trend(hours, series, causes.most_common(_CAUSES), unknown, behind)


async def _kept_since(index: LogIndex) -> int:
    """Return since when (ms) the log has all that was written; 0 where nothing is dropped."""
    log, since = index.log.port, 0
    topics = await log.topics()
    for topic, partition in index.read_positions:
        if topic in topics and not topics[topic].compacted and (start := await log.log_start(topic, partition)) > 0:
            first = await log.read(topic, partition, start, 1)
            since = max(since, first[0].timestamp_ms if first else now_ms())
    return since


def way_to(app: Choreography, what: str, hour: int) -> str:
    """Return the address of the sagas, or what is parked, that a bar counts."""
    since, until = iso_ms(hour * HOUR_MS), iso_ms((hour + 1) * HOUR_MS)
    ended = f"ended_at >= '{since}' and ended_at < '{until}'"
    match what:
        case "Started":
            return path_of("sagas", where=f"started_at >= '{since}' and started_at < '{until}'")
        case "Completed" | "Failed":
            declared = Declared(app)
            bad = {*declared.types(failing=True), *declared.types(reversing=True)}
            ends = [
                f"'{snake_case(each)}'" for each in declared.types(final=True) if (each in bad) == (what == "Failed")
            ]
            return path_of("sagas", where=f"{ended} and outcome in ({', '.join(ends)})" if ends else ended)
        case "Compensated":
            return path_of("sagas", where=f"{ended} and compensations > 0")
        case "Parked":
            return path_of("parked", where=f"since >= '{since}' and since < '{until}'")
        case _:
            return path_of("sagas", where=ended, order_by="duration desc")
