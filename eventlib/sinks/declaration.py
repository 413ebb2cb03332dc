"""What a sink is: functions that write events into tables, within one transaction with their positions."""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, get_args, get_origin

from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from eventlib.errors import WiringError
from eventlib.ground.arguments import AN_APP, check
from eventlib.model.choreography import Choreography
from eventlib.model.event import Event, contract_of
from eventlib.model.personal import is_personal
from eventlib.model.signatures import events_in, hints_of, name_of, positional, takes_meta
from eventlib.model.topic import Topic
from eventlib.personal.receipt import ERASURES

H = TypeVar("H", bound=Callable[..., Any])
Forget = Callable[[str, Session], None]

_NAME = "a name begins with a letter, and is made of at most 40 lower-case letters, digits and '_'"
_LONGEST_NAME = 40


@dataclass(frozen=True, slots=True)
class Handler:
    """A function that writes events; one that takes many gets those that come in a row."""

    function: Callable[..., Awaitable[None] | None]
    events: tuple[type[Event], ...]
    takes_many: bool
    takes_meta: bool
    is_async: bool


class SqlSink:
    """Writes events into tables of PostgreSQL by SQLAlchemy, within one transaction with its positions.

    `tables` are those that are the sink's alone: they are in a schema of its name, `eventlib sink run` makes them, and
    `eventlib sink rebuild` computes them anew beside the old ones, from the log's beginning, and switches. Raise `version`
    when handlers or tables change: another version's rows are not written to. Without `tables` it is an inbox: its handlers
    change an application's own rows, and may put events into its outbox; with `from_now`, it begins with what comes after
    its first start.
    Guarantee: each event counts once, whatever dies, since its rows and the sink's position commit together; those of a topic's
    partition come in order, and between topics there is no order. An event whose handler raises is parked with the error,
    and so are later ones of its topic and key; others go on.
    """

    def __init__(
        self,
        name: str,
        choreography: Choreography,
        *,
        tables: MetaData | None = None,
        version: int = 1,
        from_now: bool = False,
    ) -> None:
        check(choreography, Choreography, "choreography", AN_APP)
        if not (name.isascii() and name.isidentifier() and name.islower() and len(name) <= _LONGEST_NAME):
            raise WiringError(f"sink {name!r}: {_NAME}")
        if tables is not None and from_now:
            raise WiringError(f"sink {name}: tables are computed from the log's beginning: leave from_now=True out")
        if (
            tables is not None
            and (named := next((each for each in tables.tables.values() if each.schema), None)) is not None
        ):
            raise WiringError(
                f"sink {name}: table {named.fullname} names a schema, and the sink has its own: leave it out"
            )
        if tables is None and version != 1:
            raise WiringError(f"sink {name}: version={version} is for a sink with tables=, which can be rebuilt")
        self.name, self.choreography = name, choreography
        self.tables, self.version, self.from_now = tables, version, from_now
        self.handlers = dict[type[Event], Handler]()
        self.forget: Forget | None = None
        self.own_database: Callable[[], Any] | None = None
        """Makes its database, where that is none that a URL names."""
        self._modules = set[str]()

    @property
    def schema(self) -> str | None:
        """The schema of its tables; None for an inbox, which is where the connection's search path says."""
        return None if self.tables is None else self.name

    @property
    def is_personal(self) -> bool:
        """Whether an event that it handles has personal fields, so that its tables may hold what was in them."""
        return is_personal(*self.handlers)

    @property
    def topics(self) -> Sequence[Topic]:
        """The topics that it reads."""
        found = {contract_of(event).topic.name: contract_of(event).topic for event in self.handlers}
        return [*found.values(), *([ERASURES] if self.forget else [])]

    @property
    def modules(self) -> set[str]:
        """The modules that its functions and its events are declared in."""
        return self._modules | {event.__module__ for event in self.handlers}

    def on(self, handler: H) -> H:
        """Register a handler for the events in its first parameter's type.

        `def placed(event: OrderPlaced | OrderCancelled, session: Session) -> None`; as `async def`, with an `AsyncSession`.
        `Meta`, as a third parameter, is what the log knows of the event. With `events: Sequence[OrderPlaced]` it gets those
        that come in a row at once, for fewer statements.
        Raises: WiringError for another signature, an event that is not one of the choreography's, and a second handler.
        """
        where = f"handler {name_of(handler)} of sink {self.name}"
        hints = hints_of(handler, where, 2)
        self._register(_handler(handler, hints, where), where)
        self._modules.add(handler.__module__)
        return handler

    def _register(self, found: Handler, where: str) -> None:
        for event in found.events:
            if event not in self.choreography.events:
                raise WiringError(f"{where}: {event.__name__} is not an event of {self.choreography.name}")
            if event in self.handlers:
                raise WiringError(f"{where}: {event.__name__} has a handler: {name_of(self.handlers[event].function)}")
        self.handlers.update(dict.fromkeys(found.events, found))

    def on_erasure(self, forget: Forget) -> Forget:
        """Register what removes a person from the tables: `def forget(subject: str, session: Session) -> None`.

        It is called once for each `eventlib forget`, within a transaction of its own position; from then on events of that
        person come with `[erased]`. Keep the subject's id in the tables, so that it can be found there.
        """
        self.forget = forget
        self._modules.add(forget.__module__)
        return forget


def sink_of(named: str, found: object) -> SqlSink:
    """Return what was imported as a sink. Raises: WiringError when it is none, or handles nothing."""
    if not isinstance(found, SqlSink):
        raise WiringError(f"{named} is a {type(found).__name__}, not a SqlSink: name one")
    if not found.handlers:
        raise WiringError(f"sink {found.name} handles nothing: write a function under @{named.rpartition(':')[2]}.on")
    return found


def _handler(function: Callable[..., Any], hints: Mapping[str, Any], where: str) -> Handler:
    first, *others = [hints.get(each.name) for each in positional(function)]
    form = f"write `def {name_of(function)}(event: EventA | EventB, session: Session) -> None`"
    if first is None or not others:
        raise WiringError(f"{where}: the events that it handles are read from its first parameter: {form}")
    takes_many = get_origin(first) is Sequence
    events = events_in([get_args(first)[0] if takes_many else first], where, form)
    is_async = inspect.iscoroutinefunction(function)
    if others[0] is not (AsyncSession if is_async else Session):
        asked = "AsyncSession, since it is async" if is_async else "Session"
        raise WiringError(f"{where}: its second parameter's type has to be sqlalchemy's {asked}: {form}")
    meta = takes_meta(function, 2, where)
    if meta and takes_many:
        raise WiringError(f"{where}: Meta is about one event, and it takes many: {form}")
    return Handler(function, tuple(events), takes_many, meta, is_async)
