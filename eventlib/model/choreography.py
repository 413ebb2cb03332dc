"""A choreography: the services that react to each other's events, and what follows from their types."""

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, TypeVar

from eventlib.errors import WiringError
from eventlib.ground.arguments import AN_EVENT, AN_INVARIANT, check_class, check_each, did_you_mean
from eventlib.model.decider import Decider
from eventlib.model.event import Event, contract_of
from eventlib.model.finding import Accepted
from eventlib.model.invariants import Invariant
from eventlib.model.saga_status import SagaStates
from eventlib.model.service import Service
from eventlib.model.topic import Topic

if TYPE_CHECKING:  # the core does without: applications with settings have it
    from pydantic_settings import BaseSettings

T = TypeVar("T")
_NOT_IN_A_FILE = r"[^\w.-]+"


class Choreography:
    """The set of services that make up an application; graph, checks and topics derive from it.

    `facts` names events that are published from outside and that no service handles (catalogue entries, for instance).
    `ports` opens the outside world for a log's URL: the objects that effects call, by parameter name.
    `http` makes the application's ASGI app on an opened EventLog, for `eventlib run --http`; it is called only there.
    `invariants` are what holds whatever happens: the simulator, tests and metrics check them.
    `sagas` gives the status of sagas, for `eventlib status`.
    `accepts` are findings of `eventlib check` that are meant to be so, each with the reason.
    `settings` are the classes of the application's own settings, or their names (`shop.settings:ShopSettings`), which are
    imported when a command needs them: `eventlib run` refuses wrong ones, and `eventlib config` prints them.
    `analytics` names the package with the application's own tables and its own parts of the report (`shop.analytics`), which
    only the analytics import.
    Its log is by default the file `default_log`, a URL that has its name.
    Raises: WiringError when two services, deciders, event types or topics contradict each other.
    """

    def __init__(  # noqa: PLR0913  what an application is made of
        self,
        name: str,
        services: Sequence[Service],
        *,
        facts: Iterable[type[Event]] = (),
        ports: Callable[[str], AbstractAsyncContextManager[Mapping[str, object]]] | None = None,
        http: Callable[[Any], Callable[..., Awaitable[None]]] | None = None,
        invariants: Iterable[Invariant] = (),
        accepts: Iterable[Accepted] = (),
        sagas: SagaStates[Any] | None = None,
        settings: Iterable["type[BaseSettings] | str"] = (),
        analytics: str | None = None,
    ) -> None:
        self.name = name
        self.default_log = f"sqlite:///var/{re.sub(_NOT_IN_A_FILE, '-', name)}.db"
        self.analytics = analytics
        self._settings = tuple(settings)
        self.sagas = sagas
        self.ports = ports
        self.http = http
        self.services = check_each(
            services, Service, "services", 'give services: `Service("order", deciders=[orders])`'
        )
        self.facts: tuple[type[Event], ...] = tuple(facts)
        for number, fact in enumerate(self.facts):
            check_class(fact, Event, f"facts[{number}]", AN_EVENT)
        self.invariants = check_each(invariants, Invariant, "invariants", AN_INVARIANT)
        self.accepts = tuple(accepts)
        _refuse_twice("services", (service.name for service in self.services))
        _refuse_twice("deciders", (decider.name for decider in self.deciders))
        _refuse_twice("invariants", (each.name for each in self.invariants))
        _refuse_twice("event types", (contract_of(event).type for event in self.events))
        _refuse_neighbours(self.events)
        self.topics = self._topics()
        self.failures = frozenset(event for event in self.events if self._fails(event))

    @property
    def deciders(self) -> tuple[Decider[Any], ...]:
        """Every decider of every service."""
        return tuple(decider for service in self.services for decider in service.deciders)

    @property
    def events(self) -> tuple[type[Event], ...]:
        """Every event that is handled or emitted, or published from outside."""
        found = [event for service in self.services for event in (*service.handles, *service.emits)]
        return tuple(dict.fromkeys([*found, *self.facts]))

    @property
    def settings(self) -> tuple[type["BaseSettings"], ...]:
        """The classes of the application's own settings. Raises: WiringError for a name under which there is none."""
        return tuple(_class_of(each) if isinstance(each, str) else each for each in self._settings)

    def extended(
        self,
        name: str,
        *services: Service,
        facts: Iterable[type[Event]] = (),
        invariants: Iterable[Invariant] = (),
        accepts: Iterable[Accepted] = (),
    ) -> "Choreography":
        """Return a choreography of these services and more, on the same log, with the same outside world, HTTP and invariants.

        Ports of the new services' own are given where they are run. Raises: WiringError as the class does.
        """
        made = Choreography(
            name,
            [*self.services, *services],
            facts=[*self.facts, *facts],
            ports=self.ports,
            http=self.http,
            invariants=[*self.invariants, *invariants],
            accepts=[*self.accepts, *accepts],
            sagas=self.sagas,
            settings=self._settings,
            analytics=self.analytics,
        )
        made.default_log = self.default_log
        return made

    @property
    def saga_field(self) -> str:
        """The field whose values are the keys of sagas: of those who know their status, else of the events that end them.

        Empty where neither is there: then a saga is what follows from one input.
        """
        if self.sagas is not None and self.sagas.decider.key:
            return self.sagas.decider.key
        contracts = [contract_of(event) for event in self.events]
        return next((each.key for each in contracts if each.final and each.key), "")

    def service(self, name: str) -> Service:
        """Return a service by name. Raises: WiringError when there is none."""
        return _named(name, {service.name: service for service in self.services}, "service")

    def decider(self, name: str) -> Decider[Any]:
        """Return a decider by name. Raises: WiringError when there is none."""
        return _named(name, {decider.name: decider for decider in self.deciders}, "decider")

    def event(self, name: str) -> type[Event]:
        """Return an event class by its type's name. Raises: WiringError when there is none."""
        return _named(name, {contract_of(event).type: event for event in self.events}, "event")

    def service_of(self, decider: Decider[Any]) -> Service:
        """Return the service that a decider belongs to."""
        return next(service for service in self.services if decider in service.deciders)

    def _fails(self, event: type[Event]) -> bool:
        """Tell whether an event is a failure: it declares so, or an effect emits it when the outcome is unknown."""
        declared = contract_of(event).failure
        if declared is not None:
            return declared
        return any(event in effect.uncertain for decider in self.deciders for effect in decider.effects.values())

    def _topics(self) -> tuple[Topic, ...]:
        found: dict[str, Topic] = {}
        for event in self.events:
            topic = contract_of(event).topic
            declared = found.setdefault(topic.name, topic)
            if declared != topic or declared.format != topic.format:
                raise WiringError(
                    f"topic {topic.name!r} is declared in two ways ({declared} and {topic}, by {event.__name__}): "
                    "declare it once as a Topic and use that on every event"
                )
        for topic in [*found.values()]:
            if topic.latest:
                found[topic.latest_topic.name] = topic.latest_topic
        for service in self.services:
            for topic in service.own_topics:
                if topic.name in found:
                    raise WiringError(
                        f"topic {topic.name!r} belongs to service {service.name}; give events another one"
                    )
                found[topic.name] = topic
        return tuple(found.values())


def _class_of(name: str) -> Any:
    try:
        return resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise WiringError(f"settings: there is no {name!r} ({error}): write module:Class") from error


def _refuse_twice(what: str, names: Iterable[str]) -> None:
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise WiringError(f"two {what} are named {', '.join(twice)}: names are unique in a choreography")


def _refuse_neighbours(events: Sequence[type[Event]]) -> None:
    for external in (contract_of(event) for event in events if contract_of(event).external):
        others = [event.__name__ for event in events if contract_of(event).topic.name == external.topic.name]
        if len(others) > 1:
            raise WiringError(
                f"topic {external.topic.name!r} is external, and such a topic has one event type, but here are "
                f"{', '.join(sorted(others))}: leave one, and put our own events on a topic of ours"
            )


def _named(name: str, found: dict[str, T], what: str) -> T:
    if name not in found:
        raise WiringError(
            f"there is no {what} {name!r}; {did_you_mean(name, found)}known are {', '.join(sorted(found))}"
        )
    return found[name]
