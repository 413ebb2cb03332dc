"""Services: deciders that are deployed together, and the topics they keep for themselves."""

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Literal

from eventlib.errors import WiringError
from eventlib.ground.arguments import A_DECIDER, check_each
from eventlib.limits import Limit, checked
from eventlib.model.decider import Decider
from eventlib.model.event import Event, contract_of
from eventlib.model.topic import Topic


class Service:
    """A named, deployable group of deciders and their effects.

    Task p of a service is partition p of every topic that its deciders read, so these have equal partition counts.
    `start_from` is where a service added to an old log begins: "earliest" or "latest". Its effects run only for what
    was recorded after its first start, and for what follows from that: those for the past are parked, each with its
    reason, until an operator retries them. `effects="all"` runs them all; the first services of a log have no past.
    `limits` holds back what its effects ask: by a port's name, or by the request of a kind of effect.
    Guarantee: where a task began, and what was past then, is recorded before it handles anything.
    Raises: WiringError when the deciders do not fit together.
    """

    def __init__(
        self,
        name: str,
        *,
        deciders: Sequence[Decider[Any]],
        start_from: Literal["earliest", "latest"] = "earliest",
        effects: Literal["new", "all"] = "new",
        limits: Mapping[str | type[Event], Limit] | None = None,
    ) -> None:
        _refuse_odd(name)
        if not deciders:
            raise WiringError(f"service {name} has no deciders")
        self.name = name
        self.emits_as = name
        self.deciders = check_each(deciders, Decider, f"deciders of service {name}", A_DECIDER)
        self.start_from = start_from
        self.effects = effects
        self.partitions = self._common_partitions()
        self.limits = {
            each if isinstance(each, str) else each.__name__: limit for each, limit in (limits or {}).items()
        }
        checked(self.limits, self.effect_ports(), self.partitions, f"service {name}")

    def __repr__(self) -> str:
        return f"Service({self.name!r})"

    def under(self, name: str) -> "Service":
        """Return this service under another name, for a run beside this one: with topics of its own for everything.

        It emits as this service does, so that its events have the same ids and sources; but what it emits goes to
        topics of its own, which no other service reads. Raises: WiringError when it cannot be a name.
        """
        _refuse_odd(name)
        other = copy(self)
        other.name = name
        return other

    def output_topic(self, topic: Topic) -> Topic:
        """Return the topic for outputs of a topic: the same one, unless this service runs beside another one.

        Outputs beside another service are kept for as long as the run is.
        """
        if self.name == self.emits_as:
            return topic
        name = f"{self.name}.said.{topic.name}"
        return replace(topic, name=name, retention=None, retention_bytes=None, compacted=False)

    def _common_partitions(self) -> int:
        counts = {topic.name: topic.partitions for topic in self.inputs}
        if len(set(counts.values())) > 1:
            seen = ", ".join(f"{name} has {count}" for name, count in sorted(counts.items()))
            raise WiringError(
                f"service {self.name} reads topics with different partition counts ({seen}): one key's events would "
                "meet in different tasks; give these topics equal counts"
            )
        partitioners = {topic.partitioner for topic in self.inputs}
        if len(partitioners) > 1:
            raise WiringError(f"service {self.name} reads topics with different partitioners: {sorted(partitioners)}")
        if not counts:
            raise WiringError(f"service {self.name} handles no event")
        return next(iter(counts.values()))

    @property
    def handles(self) -> tuple[type[Event], ...]:
        """Every event that a decider of this service handles."""
        return tuple(dict.fromkeys(event for decider in self.deciders for event in decider.handlers))

    @property
    def emits(self) -> tuple[type[Event], ...]:
        """Every event that this service can put on the log."""
        return tuple(dict.fromkeys(event for decider in self.deciders for event in decider.emits))

    @property
    def is_personal(self) -> bool:
        """Whether a decider of it has to do with personal fields."""
        return any(decider.is_personal for decider in self.deciders)

    @property
    def inputs(self) -> tuple[Topic, ...]:
        """The topics that this service's deciders read."""
        return tuple({contract_of(e).topic.name: contract_of(e).topic for e in self.handles}.values())

    @property
    def outputs(self) -> tuple[Topic, ...]:
        """The topics that this service's events stand on."""
        return tuple({contract_of(e).topic.name: contract_of(e).topic for e in self.emits}.values())

    @property
    def ports(self) -> set[str]:
        """The names of the ports that its effects call."""
        return {port for decider in self.deciders for effect in decider.effects.values() for port in effect.ports}

    def effect_ports(self) -> dict[str, str | None]:
        """Return the port of each kind of effect, by its request's name. Raises: WiringError for a key it has not."""
        found = dict[str, str | None]()
        for decider in self.deciders:
            for request, effect in decider.effects.items():
                found[request.__name__] = effect.ask.port
                limit = self.limits.get(effect.ask.port or "", self.limits.get(request.__name__))
                if limit is not None and limit.key and limit.key not in request.model_fields:
                    raise WiringError(
                        f"service {self.name} limits {effect.asks} by key={limit.key!r}, and {request.__name__} has no such "
                        "field: add it, or leave out key to take the decider's"
                    )
        return found

    @property
    def changelog(self) -> Topic:
        """The compacted topic that holds each key's newest state, pending effects, and the tasks' positions."""
        return Topic(f"{self.name}.changelog", partitions=self.partitions, compacted=True, max_event_bytes=_OWN_MAX)

    @property
    def journal(self) -> Topic:
        """The topic that records, per transaction, which inputs were handled in which order."""
        return Topic(f"{self.name}.journal", partitions=self.partitions, max_event_bytes=_OWN_MAX)

    @property
    def parked(self) -> Topic:
        """The topic of records that could not be handled, with what waits behind them."""
        return Topic(f"{self.name}.parked", partitions=self.partitions, max_event_bytes=_OWN_MAX)

    @property
    def control(self) -> Topic:
        """The topic of what people tell the service's tasks: retry what is parked."""
        return Topic(f"{self.name}.control", partitions=self.partitions)

    @property
    def own_topics(self) -> tuple[Topic, ...]:
        """The topics that only this service writes, its control topic included."""
        return (self.changelog, self.journal, self.parked, self.control)


def topics_of(services: Iterable[Service]) -> list[Topic]:
    """Return every topic that services read or write, with its compacted copy where it is held twice."""
    found = dict[str, Topic]()
    for service in services:
        for topic in (*service.inputs, *service.outputs, *service.own_topics):
            found[topic.name] = topic
            if topic.latest:
                found[topic.latest_topic.name] = topic.latest_topic
    return [*found.values()]


def _refuse_odd(name: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        raise WiringError(f"service {name!r}: a name is small letters, digits and '-', and begins with a letter")


_OWN_MAX = 64_000_000  # a state or a parked record may be larger than one event
