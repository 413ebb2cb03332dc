"""What an inbox of a Django application is: functions that change its rows by Django's models."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from eventlib.errors import WiringError
from eventlib.model.choreography import Choreography
from eventlib.model.event import Event, Meta
from eventlib.model.signatures import events_in, hints_of, name_of, positional, takes_meta
from eventlib.sinks.declaration import Handler, SqlSink
from eventlib.sinks.django.database import DjangoDatabase

H = TypeVar("H", bound=Callable[..., None])


class DjangoInbox(SqlSink):
    """Takes events into an application that keeps its data by Django in PostgreSQL, within Django's transactions.

    `using` is the alias of the database. Guarantee: as that of `SqlSink` without tables; what a `DjangoOutbox` is given
    in a handler is in the same transaction.
    """

    def __init__(
        self, name: str, choreography: Choreography, using: str = "default", *, from_now: bool = False
    ) -> None:
        super().__init__(name, choreography, from_now=from_now)
        self.own_database = partial(DjangoDatabase, self, using)

    def on(self, handler: H) -> H:
        """Register a handler for the events in its first parameter's type: `def placed(event: OrderPlaced) -> None`.

        `Meta`, as a second parameter, is what the log knows of the event. Raises: WiringError as `SqlSink.on` does.
        """
        where = f"handler {name_of(handler)} of inbox {self.name}"
        form = f"write `def {name_of(handler)}(event: EventA | EventB) -> None`"
        if inspect.iscoroutinefunction(handler):
            raise WiringError(f"{where}: Django's transactions are not async: {form}")
        hints = hints_of(handler, where, 2)
        first = next((hints.get(each.name) for each in positional(handler)), None)
        if first is None:
            raise WiringError(f"{where}: the events that it handles are read from its first parameter: {form}")
        meta, events = takes_meta(handler, 1, where), events_in([first], where, form)
        self._register(Handler(partial(_without_session, handler), tuple(events), False, meta, False), where)
        self._modules.add(handler.__module__)
        return handler


def _without_session(handler: Callable[..., Any], event: Event, _session: object, *meta: Meta) -> None:
    handler(event, *meta)
