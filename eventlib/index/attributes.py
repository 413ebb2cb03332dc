"""The attributes of sagas: those that every saga has, and those that events and states declare to be searchable."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from eventlib.errors import WiringError
from eventlib.model.choreography import Choreography
from eventlib.model.event import Event, contract_of
from eventlib.model.searchable import Kind, SearchField, searchable_fields

KEYWORDS = frozenset({"and", "or", "not", "in", "like", "between", "is", "null", "true", "false", "asc", "desc"})
"""The words of the query language, which no attribute is called."""
TEXT, INTEGER, TIME, DURATION = Kind("text"), Kind("integer"), Kind("time"), Kind("duration")


@dataclass(frozen=True, slots=True)
class Attribute:
    """A name in queries: the values that it has, and where an index has them.

    `currency` is the attribute with the currency of an amount. `sql` is an expression on a row `s`; with `of` it is one on a row `m` of that table, which has any number of rows
    for each `s`. `index` is the column with an index, by which rows are ordered, too; empty: it only filters.
    With `drives`, the rows with a value are found without a look at all the others.
    """

    name: str
    kind: Kind
    about: str
    sql: str
    of: str = ""
    index: str = ""
    currency: str = ""
    drives: bool = True


STATUSES = ("open", "overdue", "ended")
WAITS = ("effect", "deadline", "parked", "paused", "event")
IS_OVERDUE = "(s.is_overdue OR coalesce(s.overdue_at <= :now, 0))"
_STATUS = f"CASE WHEN NOT s.open THEN 'ended' WHEN {IS_OVERDUE} THEN 'overdue' ELSE 'open' END"

CODE_VERSIONS = """(
SELECT s.saga AS saga, c.code_version AS code_version FROM _events AS e CROSS JOIN _code AS c
ON c.topic = e.topic AND c.partition = e.partition AND e."offset" BETWEEN c.first AND c.last
WHERE e.saga = s.saga AND (c.service, e.type) IN _handled
UNION ALL SELECT saga, value FROM _values WHERE saga = s.saga AND name = 'code version'
)"""
"""The versions of the code that decided in a saga `s`: what handled its events, and deadlines and retries of its own key."""

OF_SAGAS = (
    Attribute("saga", TEXT, "the key of the saga's events", "s.saga", index="saga"),
    Attribute(
        "status",
        Kind("text", STATUSES),
        "`open`, `overdue` (open, and later than it may be), or `ended`",
        _STATUS,
    ),
    Attribute("state", TEXT, "what the application calls its state, as long as the service keeps that", "s.state"),
    Attribute("outcome", TEXT, "the type of the event that ended it, in snake case; `open` before", "s.outcome"),
    Attribute(
        "reason",
        TEXT,
        "why: the `reason` of the event that ended it; while it is open, or where a failure or a compensation without one "
        "ended it, that of its first failure, or that failure's name",
        "s.reason",
    ),
    Attribute("started_at", TIME, "the time of its first event", "s.started_at", index="started_at"),
    Attribute("last_at", TIME, "the time of its last event", "s.last_at", index="last_at"),
    Attribute("ended_at", TIME, "the time of the event that ended it", "s.ended_at", index="ended_at"),
    Attribute("overdue_at", TIME, "when it is late", "s.overdue_at"),
    Attribute("age", DURATION, "since its first event, until now", "s.started_at", index="started_at"),
    Attribute("duration", DURATION, "from its first event to the end", "s.duration_ms", index="duration_ms"),
    Attribute("steps", INTEGER, "how many events it has", "s.steps"),
    Attribute("failures", INTEGER, "how many of them are failures", "s.failures"),
    Attribute("compensations", INTEGER, "how many of them compensate", "s.compensations"),
    Attribute(
        "waiting_for",
        TEXT,
        "what it waits for: an effect's port (its function without one), `decider.deadline`, or the decider of what is parked",
        "m.name",
        "_waits",
    ),
    Attribute("waiting_kind", Kind("text", WAITS[:4]), "whether that is an effect, a deadline, or parked or paused", "m.kind", "_waits"),
    Attribute("waiting_since", TIME, "since when", "m.since", "_waits"),
    Attribute("due_at", TIME, "when a deadline passes that it waits for", "m.due_at", "_waits"),
    Attribute("service", TEXT, "the service where it waits", "m.service", "_waits"),
    Attribute("decider", TEXT, "the decider where it waits", "m.decider", "_waits"),
    Attribute(
        "code_version",
        TEXT,
        "the version of the code that handled one of its events, or a deadline or a retry of its own key",
        "m.code_version",
        CODE_VERSIONS,
        drives=False,
    ),
    Attribute("parked_reason", TEXT, "why something of it is parked, or paused", "m.reason", "_waits"),
    Attribute("event_type", TEXT, "the type of each of its events", "m.type", "_events"),
    Attribute("event_id", TEXT, "the id of each of its events", "m.id", "_events"),
    Attribute("correlation_id", TEXT, "the correlation id of each of its events", "m.correlation_id", "_stories"),
)  # fmt: skip
"""The attributes that every saga has."""
MAY_BE_DECLARED = {"code_version", "event_type", "event_id", "correlation_id"}
"""Later additions to them: an attribute of that name which an application declares is meant instead."""


@dataclass(frozen=True, slots=True)
class Declared:
    """A searchable field, and where its values come from: events, or the states of a decider."""

    field: SearchField
    decider: str = ""

    @property
    def attribute(self) -> Attribute:
        """What queries see of it."""
        name, kind, many = self.field.name, self.field.kind, self.field.many
        source = f"the state of {self.decider}" if self.decider else f"the event {contract_of(self.field.cls).type}"
        if many:
            return Attribute(name, kind, f"`{self.field.field}` of each {source[4:]}", "m.value", f"_values/{name}")
        return Attribute(name, kind, f"`{self.field.field}` of {source}", f's."{name}"', "", name, self.field.currency)


def saga_key(choreography: Choreography) -> str:
    """Return the field whose values are the keys of sagas. Raises: WiringError when there is none."""
    if not choreography.saga_field:
        raise WiringError(
            f"{choreography.name} does not say what its sagas are: declare the event that ends one, final=True, or "
            "give the choreography `sagas=SagaStates(decider, state_of)`"
        )
    return choreography.saga_field


def declared_in(choreography: Choreography) -> Mapping[str, Declared]:
    """Return what a choreography's events and states declare to be searchable, by name.

    Raises: WiringError for what could not be told apart, or belongs to no saga.
    """
    key = saga_key(choreography)
    found = dict[str, Declared]()
    for each in _declared(choreography, key):
        name = each.field.name
        if name in found:
            raise WiringError(
                f"{each.field.place} and {found[name].field.place} are both searchable as {name!r}: mark one of them, or "
                'name one differently, Searchable(name="...")'
            )
        if name in KEYWORDS or name in {known.name for known in OF_SAGAS} - MAY_BE_DECLARED | _COLUMNS:
            raise WiringError(
                f'{each.field.place}: every saga has a {name!r} already: name it differently, Searchable(name="...")'
            )
        found[name] = each
    return found


_COLUMNS = {"open", "is_overdue", "duration_ms", "rowid", "oid"}


def _declared(choreography: Choreography, key: str) -> Iterator[Declared]:
    for event in choreography.events:
        for field in searchable_fields(event).values():
            _check_event(event, field, key)
            yield Declared(field)
    for decider in choreography.deciders:
        for field in searchable_fields(decider.state).values():
            if decider.key != key or field.many:
                instead = "many=True is for events" if field.many else f"its decider has the key {decider.key}"
                raise WiringError(
                    f"{field.place} is searchable, but {instead}: sagas are found by states under {key}, which have one value; "
                    "mark a field of the events instead"
                )
            yield Declared(field, decider.name)


def _check_event(event: type[Event], field: SearchField, key: str) -> None:
    if key not in event.model_fields:
        raise WiringError(f"{field.place} is searchable, but the event has no {key}, so it belongs to no saga")
    if contract_of(event).key != key and not field.many:
        raise WiringError(
            f"{field.place} is searchable, but the event's key is not {key}: a saga may have many of them, in no order of "
            "their own. Write Searchable(many=True): then each value counts"
        )
