"""Fields that have no schema. Exact: the schemas are derived as the log derives them."""

from collections.abc import Iterable

from eventlib.errors import WiringError
from eventlib.model.choreography import Choreography
from eventlib.model.finding import Finding
from eventlib.model.schema.derive import record_of


def unwritable(choreography: Choreography) -> Iterable[Finding]:
    """Return the events and states that cannot be written to a log."""
    for cls in dict.fromkeys((*choreography.events, *(decider.state for decider in choreography.deciders))):
        try:
            record_of(cls)
        except WiringError as error:
            yield Finding(
                "error",
                "no-schema",
                cls.__name__,
                f"{cls.__module__}.{cls.__name__}",
                f"{cls.__name__} has no schema: {error}",
                "it cannot be written to a log: no service of this choreography would start",
                "give the field a type that has a schema",
            )
