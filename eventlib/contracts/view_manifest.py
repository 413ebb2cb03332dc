"""What a service's live views have to do with a log, as they declare it; for tools that create their rights and topics."""

from dataclasses import dataclass

from eventlib.model.event import Event, contract_of
from eventlib.model.service import Service
from eventlib.model.topic import Topic


@dataclass(frozen=True, slots=True)
class Viewing:
    """The events that views watch and publish, the topics that they keep copies of, and those that are only theirs."""

    service: str
    watches: tuple[type[Event], ...]
    copies: tuple[type[Event], ...]
    tells: tuple[type[Event], ...]
    own_topics: tuple[Topic, ...]

    @property
    def name(self) -> str:
        """What their user and their pods are called, after the application's name."""
        return f"{self.service}-views"

    @property
    def group(self) -> str:
        """What their consumer group is called, as a service's is after the service."""
        return f"{self.service}.live"

    @property
    def inputs(self) -> tuple[Topic, ...]:
        """The topics of others that they read."""
        watched = (contract_of(event).topic for event in self.watches)
        copied = (contract_of(event).topic for event in self.copies)
        return _distinct((*watched, *(topic.latest_topic if topic.latest else topic for topic in copied)))

    @property
    def outputs(self) -> tuple[Topic, ...]:
        """The topics that they publish to."""
        return _distinct(tuple(contract_of(event).topic for event in self.tells))

    @property
    def topics(self) -> tuple[Topic, ...]:
        """Every topic that they read or write."""
        return _distinct((*self.inputs, *self.outputs, *self.own_topics))


def views_module(service: Service) -> str:
    """Return where a service's live views are: in the module `views` of its deciders' package."""
    package = service.deciders[0].state.__module__.rpartition(".")[0]
    return f"{package}.views" if package else "views"


def _distinct(topics: tuple[Topic, ...]) -> tuple[Topic, ...]:
    return tuple({topic.name: topic for topic in topics}.values())
