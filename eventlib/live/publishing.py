"""What views tell others: typed events on topics of their own."""

from datetime import datetime
from typing import TYPE_CHECKING, Generic, TypeVar

from eventlib.event import Event, Meta, contract_of
from eventlib.eventlog import Publication
from eventlib.identity import child_traceparent, derived_id, root_traceparent
from eventlib.times import to_ms

if TYPE_CHECKING:
    from eventlib.live.app import LiveApp

E = TypeVar("E", bound=Event)


class Publisher(Generic[E]):
    """Puts a view's events of one type on the log, as everything there is: Avro, CloudEvents headers, trace context.

    Guarantee: durable when it returns; an event that is told again, after a crash, has the id that it had.
    """

    def __init__(self, app: "LiveApp", source: str, event_type: type[E]) -> None:
        self._app = app
        self._source = source
        self._kind = contract_of(event_type).type

    async def tell(self, event: E, *, about: str, at: datetime, cause: Meta | None = None) -> None:
        """Put an event on its topic; `about` is what it is about: it has one id however often it is told.

        `at` is its time; with a `cause` it belongs to that event's saga and trace.
        """
        log = self._app.log_here
        event_id = derived_id(about, self._source, self._kind, 0)
        (record, *_) = log.records_of(Publication(event), to_ms(at))
        told = record._replace(id=event_id, source=self._source, correlation_id=event_id)
        if cause is None:
            told = told._replace(traceparent=root_traceparent(event_id))
        else:
            told = told._replace(
                correlation_id=cause.correlation_id,
                causation_id=cause.id,
                traceparent=child_traceparent(cause.traceparent, event_id),
            )
        await log.port.append([told])
