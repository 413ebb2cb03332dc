"""What is added up for each saga, then and now: fields of events, as the command names them."""

import re
from collections.abc import Iterable
from typing import NamedTuple, Self

from eventlib.errors import WiringError
from eventlib.model.choreography import Choreography
from eventlib.model.event import Event, contract_of

_FORM = re.compile(r"(?P<name>[a-z][a-z0-9_]*)=(?P<type>\w+)\.(?P<field>\w+)(?::(?P<currency>\w+))?")


class Figure(NamedTuple):
    """A sum: `field` of the events of a type, minor units of what its field `currency` names (empty: plain numbers)."""

    name: str
    type: str
    field: str
    currency: str = ""

    @classmethod
    def parsed(cls, text: str) -> Self:
        """Return the figure of `NAME=TYPE.FIELD` or `NAME=TYPE.FIELD:CURRENCY`. Raises: WiringError."""
        found = _FORM.fullmatch(text)
        if found is None:
            raise WiringError(
                f"--sum {text!r} is not NAME=TYPE.FIELD or NAME=TYPE.FIELD:CURRENCY, "
                "such as money=OrderCompleted.amount_cents:currency"
            )
        return cls(found["name"], found["type"], found["field"], found["currency"] or "")

    @property
    def columns(self) -> tuple[str, str, str]:
        """The names of its columns in the tables: the currency, the amount then, and the amount now."""
        return f"{self.name}_currency", f"{self.name}_then", f"{self.name}_now"

    def of(self, event: Event | None) -> tuple[str | None, int]:
        """Return the currency and the amount in an event; nothing for an event of another type."""
        if event is None or contract_of(type(event)).type != self.type:
            return None, 0
        return str(getattr(event, self.currency)) if self.currency else None, int(getattr(event, self.field))


def refuse_unknown(figures: Iterable[Figure], *choreographies: Choreography) -> None:
    """Refuse figures of events or fields that an application does not have, and names given twice. Raises: WiringError."""
    named = set[str]()
    for figure in figures:
        if figure.name in named:
            raise WiringError(f"--sum {figure.name} is given twice: give each sum a name of its own")
        named.add(figure.name)
        for choreography in choreographies:
            fields = choreography.event(figure.type).model_fields
            for field in (figure.field, figure.currency):
                if field and field not in fields:
                    raise WiringError(
                        f"--sum {figure.name}: {figure.type} has no field {field!r}; it has {', '.join(fields)}"
                    )
