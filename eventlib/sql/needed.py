"""Which topics a question is about: only these are read into the tables before it is answered."""

from collections.abc import Iterable

from eventlib.index.tables import Declared, event_table, state_table
from eventlib.model.choreography import Choreography
from eventlib.model.event import contract_of


def topics_of(app: Choreography, named: Iterable[tuple[str, str]]) -> set[str]:
    """Return the topics whose records are in tables, each named with the innermost view by which it is read, or none."""
    declared = Declared(app)
    events = {event_table(event): contract_of(event).topic.name for event in declared.events.values()}
    states = {state_table(each): app.service_of(each).changelog.name for each in declared.deciders.values()}
    found = set[str]()
    for view, table in named:
        if view in events:
            found.add(events[view])
        elif table.removeprefix("_") in states:
            found.add(states[table.removeprefix("_")])
        elif table == "_waits":
            found |= {service.changelog.name for service in app.services}
        elif table == "_parked_inputs":
            found |= {service.parked.name for service in app.services}
        elif table.removeprefix("_") in events:
            found.add(events[table.removeprefix("_")])
        elif table in {"_events", "_sagas", "_unread"}:
            found |= {contract_of(event).topic.name for event in app.events}
    return found
