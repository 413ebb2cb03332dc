"""What is supposed: other code, other inputs, and answers of the outside world to what it was never asked."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from analytics.audit.application import Application
from analytics.whatif.figures import Figure, refuse_unknown
from eventlib.command_line import load_named
from eventlib.errors import WiringError
from eventlib.model.event import Event, contract_of, key_of
from eventlib.simulation import Choices

Ports = Mapping[str, object]
Model = Callable[[Choices], Ports]
"""Returns the external systems by parameter name, as `Scenario.ports` does; asked anew for each question."""

Change = Callable[[Event], Iterable[Event]]
"""Returns the external events in place of a recorded one: the first in its place, others after it; none: it never came."""


@dataclass(frozen=True)
class Orders:
    """Which requests that begin sagas are taken: of these keys only (None: all), and with these contents.

    `key_field` is the key of what ends a saga: requests of other keys, such as deliveries, come as they did. `contents`
    has the fields of a request by its type and key.
    """

    key_field: str = ""
    keys: frozenset[str] | None = None
    contents: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path, application: Application) -> "Orders":
        """Read a file: each line a key, or a request as JSON with its `type`. Raises: WiringError."""
        keys, contents = set[str](), dict[tuple[str, str], Mapping[str, Any]]()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            text = line.strip()
            if not text.startswith("{"):
                keys |= {text} if text else set()
                continue
            try:
                fields = json.loads(text)
                event = application.choreography.event(str(fields.pop("type", ""))).model_validate(fields)
            except (ValueError, WiringError) as error:  # pydantic's is a ValueError, too
                raise WiringError(f"{path}:{number} is no request of the application: {error}") from error
            contract = contract_of(type(event))
            if not contract.request:
                raise WiringError(
                    f"{path}:{number}: {contract.type} is no request: only what comes from outside is changed"
                )
            contents[contract.type, key_of(event) or ""] = fields
        taken = frozenset(keys | {key for _, key in contents}) if keys else None
        return cls(application.story_field, taken, contents)

    def change(self, event: Event) -> Iterable[Event]:
        """Return what stands in place of an external event."""
        contract, key = contract_of(type(event)), key_of(event) or ""
        if not contract.request:
            return [event]
        fields = self.contents.get((contract.type, key))
        if fields is not None:
            return [type(event).model_validate(fields)]
        is_taken = self.keys is None or contract.key != self.key_field or key in self.keys
        return [event] if is_taken else []


@dataclass(frozen=True)
class Hypothesis:
    """The rules that decide (`today` before `since_ms`, `tomorrow` from then on), and what comes from outside.

    `model` and `change` are named as `module:name`; `seed` makes the model's choices. Everything in it can be sent to
    Spark's workers.
    """

    today: Application
    tomorrow: Application
    since_ms: int = 0
    model: str | None = None
    change: str | None = None
    orders: Orders = Orders()
    figures: tuple[Figure, ...] = ()
    seed: int = 0

    def load(self) -> None:
        """Load all that it names, before anything begins. Raises: WiringError."""
        refuse_unknown(self.figures, self.today.choreography, self.tomorrow.choreography)
        for named in (self.today, self.tomorrow):
            named.load()
        if self.since_ms:
            self._refuse_other_classes()
        self.ports, self.changes  # noqa: B018  properties that are kept

    def _refuse_other_classes(self) -> None:
        """Refuse to go on with states and events of other classes than they are. Raises: WiringError."""
        today, tomorrow = (
            {
                **{decider.name: decider.state for decider in app.deciders},
                **{contract_of(e).type: e for e in app.events},
            }
            for app in (self.today.choreography, self.tomorrow.choreography)
        )
        for name, cls in tomorrow.items():
            if today.get(name, cls) is not cls:
                raise WiringError(
                    f"--since: {name} is {cls.__module__}.{cls.__qualname__} in --with and another class in --app: let "
                    "both use one class, or leave --since out"
                )

    @property
    def changes_inputs(self) -> bool:
        """Whether anything from outside may be otherwise than it was."""
        return self.change is not None or self.orders != Orders()

    @cached_property
    def ports(self) -> Model | None:
        """What answers questions that were never asked; None: nothing does. Raises: WiringError."""
        return None if self.model is None else cast("Model", self._named("model", self.model))

    @cached_property
    def changes(self) -> Change | None:
        """What changes external events; None: nothing does. Raises: WiringError."""
        return None if self.change is None else cast("Change", self._named("change", self.change))

    def _named(self, what: str, name: str) -> object:
        found = load_named(what, name, Path(self.tomorrow.directory))
        if not callable(found):
            raise WiringError(f"--{what} {name!r} is a {type(found).__name__}: name a function")
        return found

    def inputs(self, event: Event) -> list[Event]:
        """Return the external events in place of a recorded one. Raises: WiringError for one of another key or type."""
        found = [*self.orders.change(event)]
        if self.changes is not None:
            found = [each for event in found for each in self.changes(event)]
        for each in found:
            if not isinstance(each, Event):
                raise WiringError(f"--change returned {each!r}, which is no event")
        if found and (key_of(found[0]), type(found[0])) != (key_of(event), type(event)):
            raise WiringError(
                f"--change put a {type(found[0]).__name__} of key {key_of(found[0])!r} in place of the "
                f"{type(event).__name__} of {key_of(event)!r}: keep type and key, or return the recorded event first"
            )
        return found
