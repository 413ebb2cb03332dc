"""What a picture of a choreography shows, whatever it is drawn in.

Nodes are events, the effects between a request and its answers, deadlines, outboxes that put requests, and what only listens:
deciders, sinks, and subscribers of webhooks; an arrow leads from a cause to what is emitted. That a decider which emits something listens to other events as well is not drawn.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

Role = Literal["step", "failure", "compensation"]
Kind = Literal["request", "event", "effect", "deadline", "source", "listener"]

OUTSIDE = "outside"
"""The lane of what no service emits."""


@dataclass(frozen=True, slots=True)
class Lane:
    """Where nodes stand: with a decider of a service, with a port of the outside world, or outside of everything."""

    service: str | None
    name: str


@dataclass(frozen=True, slots=True)
class Node:
    """An event, effect, deadline, source or listener; `ends` is true of an event that ends a saga. `notes` are for who looks closer."""

    id: str
    label: str
    kind: Kind
    role: Role
    lane: Lane
    ends: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Arrow:
    """What leads to what, and where that is decided; there is one between two nodes."""

    source: str
    target: str
    role: Role
    where: str


@dataclass(frozen=True, slots=True)
class Traffic:
    """How often an arrow was gone on a log; and within how many milliseconds 95% and 99% of the times, where that is known."""

    count: int
    p95_ms: int | None = None
    p99_ms: int | None = None

    @property
    def late_ms(self) -> int | None:
        """What stands on the arrow: the p99, or the p95 where only that is known."""
        return self.p95_ms if self.p99_ms is None else self.p99_ms


@dataclass(frozen=True)
class Picture:
    """Lanes, nodes and arrows, each in a steady order; with traffic, when it was counted on a log."""

    title: str
    subtitle: str
    lanes: tuple[Lane, ...]
    nodes: tuple[Node, ...]
    arrows: tuple[Arrow, ...]
    traffic: Mapping[tuple[str, str], Traffic] | None = None
    counts: Mapping[str, int] = field(default_factory=dict)

    def on(self, lane: Lane) -> list[Node]:
        """Return the nodes of a lane."""
        return [node for node in self.nodes if node.lane == lane]

    def label(self, arrow: Arrow) -> str:
        """Return what stands on an arrow: its traffic, when it was counted and there was any."""
        traffic = (self.traffic or {}).get((arrow.source, arrow.target))
        if traffic is None:
            return ""
        return number(traffic.count) + ("" if traffic.late_ms is None else f" · {duration(traffic.late_ms)}")

    @property
    def percentile(self) -> str:
        """The name of the percentile that stands on the arrows."""
        known = [each for each in (self.traffic or {}).values() if each.p95_ms is not None]
        return "p95" if known and all(each.p99_ms is None for each in known) else "p99"

    def is_countable(self, arrow: Arrow) -> bool:
        """Tell whether a log shows how often an arrow was taken: it does not say who put a request."""
        return arrow.source not in self._sources

    def is_gone(self, arrow: Arrow) -> bool:
        """Tell whether an arrow was taken on the log, or that was not counted."""
        return self.traffic is None or (arrow.source, arrow.target) in self.traffic or not self.is_countable(arrow)

    @cached_property
    def _sources(self) -> frozenset[str]:
        return frozenset(node.id for node in self.nodes if node.kind == "source")

    def counted(
        self, subtitle: str, counts: Mapping[str, int], traffic: Mapping[tuple[str, str], Traffic]
    ) -> "Picture":
        """Return this picture with what was counted on a log: events by type, and each arrow's traffic."""
        listeners = {node.id for node in self.nodes if node.kind == "listener"}
        pairs = [(arrow.source, arrow.target) for arrow in self.arrows if arrow.target in listeners]
        receivers = {pair: Traffic(counts[pair[0]]) for pair in pairs if pair[0] in counts}
        return replace(self, subtitle=subtitle, counts=counts, traffic={**receivers, **traffic})


def number(count: int) -> str:
    """Return a number that fits on an arrow."""
    return f"{count:,}" if count < 1_000_000 else f"{count / 1_000_000:,.4g}M"  # noqa: PLR2004  a million


def duration(milliseconds: int) -> str:
    """Return a duration that fits on an arrow."""
    if milliseconds < 1_000:  # noqa: PLR2004  milliseconds in a second
        return f"{milliseconds} ms"
    for unit, length_ms in (("s", 1_000), ("min", 60_000), ("h", 3_600_000)):
        if milliseconds < 100 * length_ms:
            return f"{milliseconds / length_ms:.3g} {unit}"
    return f"{milliseconds / 86_400_000:,.0f} d"
