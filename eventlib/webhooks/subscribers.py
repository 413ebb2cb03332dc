"""Who gets events by webhook: a file in TOML that operators write, read again when it changes."""

import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from eventlib.errors import WiringError
from eventlib.ground.arguments import did_you_mean
from eventlib.ground.pydantic_errors import sentence_of
from eventlib.ground.url import is_loopback
from eventlib.model.choreography import Choreography
from eventlib.model.event import Event, contract_of
from eventlib.model.personal import personal_fields
from eventlib.model.topic import Topic
from eventlib.webhooks.cloudevents import ContentMode
from eventlib.webhooks.signing import SigningSecret

_NAME = r"^[a-z][a-z0-9_-]{0,39}$"
_OTHERS = 0o077


class Subscriber(BaseModel):
    """One endpoint, the events that it gets, and how it is treated while it does not answer.

    `secrets` say where its secrets are, `env:NAME` or `file:PATH`: two while one replaces another. `where` names fields
    and the values that an event must have in them. `retry_s` is the pause before the second attempt; each later one is
    four times as long, up to `longest_retry_s`; after `attempts` a delivery is parked.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=_NAME)]
    url: str
    events: Annotated[tuple[str, ...], Field(min_length=1)]
    secrets: Annotated[tuple[str, ...], Field(min_length=1, max_length=2)]
    where: dict[str, str | int | bool] = {}
    mode: ContentMode = "structured"
    begin: Literal["now", "start"] = "now"
    personal: bool = False
    private: bool = False
    plaintext: bool = False
    concurrency: Annotated[int, Field(ge=1, le=256)] = 8
    timeout_s: Annotated[float, Field(gt=0, le=120)] = 15
    attempts: Annotated[int, Field(ge=1, le=100)] = 10
    retry_s: Annotated[float, Field(gt=0, le=86_400)] = 5
    longest_retry_s: Annotated[float, Field(gt=0, le=604_800)] = 21_600

    @property
    def work(self) -> str:
        """What is done for it, in messages."""
        return f"webhooks of subscriber {self.name}"

    @field_validator("secrets")
    @classmethod
    def _references(cls, secrets: tuple[str, ...]) -> tuple[str, ...]:
        if not all(each.partition(":")[0] in {"env", "file"} and each.partition(":")[2] for each in secrets):
            raise ValueError("a secret stands elsewhere: name it as env:NAME or file:PATH")
        return secrets

    @model_validator(mode="after")
    def _url_is_safe(self) -> "Subscriber":
        try:
            parts = urlsplit(self.url)
            host, _ = parts.hostname or "", parts.port
        except ValueError as error:
            raise ValueError(f"url: {error}") from error
        if parts.scheme not in {"https", "http"} or not host:
            raise ValueError("url: give https://HOST/PATH")
        if parts.username is not None or parts.fragment:
            raise ValueError("url: leave the user and the #fragment out; what is secret is in `secrets`")
        if parts.scheme == "http" and not (is_loopback(host) or self.plaintext):
            raise ValueError("url: events would travel unencrypted: give https://, or plaintext = true")
        return self

    def signing_secrets(self) -> list[SigningSecret]:
        """Return its secrets. Raises: WiringError when one cannot be read, or is none of Standard Webhooks."""
        return [_secret(each, f"subscriber {self.name}: its secret {each}") for each in self.secrets]

    def event_types(self, choreography: Choreography) -> list[type[Event]]:
        """Return the classes of its events; `*` are all. Raises: WiringError for a name that there is not."""
        known = {contract_of(event).type: event for event in choreography.events}
        missing = [name for name in self.events if name != "*" and name not in known]
        if missing:
            raise WiringError(
                f"subscriber {self.name}: events: {missing[0]} is no event of {choreography.name}: "
                f"{did_you_mean(missing[0], known)}`eventlib topics` lists them"
            )
        found = [*known.values()] if "*" in self.events else [known[name] for name in self.events]
        absent = [name for name in self.where if not any(name in event.model_fields for event in found)]
        if absent:
            raise WiringError(f"subscriber {self.name}: where: none of its events has a field {absent[0]}")
        hidden = [
            name for name in self.where for event in found if name in personal_fields(event) and not self.personal
        ]
        if hidden:
            raise WiringError(
                f"subscriber {self.name}: where: {hidden[0]} is personal, and masked without personal = true"
            )
        return found

    def topics(self, choreography: Choreography) -> list[Topic]:
        """Return the topics that its events are on."""
        topics = [contract_of(event).topic for event in self.event_types(choreography)]
        return [*{topic.name: topic for topic in topics}.values()]

    def wants(self, event: Event) -> bool:
        """Return whether an event of one of its classes has what `where` asks for."""
        return all(_plain(getattr(event, name, None)) == value for name, value in self.where.items())


def read_subscribers(path: Path) -> dict[str, Subscriber]:
    """Return the subscribers in a file, by name. Raises: WiringError, naming the subscriber and the field."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise WiringError(
            f"there is no file of subscribers {path}: give --subscribers, or EVENTLIB_WEBHOOKS"
        ) from error
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise WiringError(f"the file of subscribers {path} cannot be read: {error}") from error
    tables = found.pop("subscribers", {})
    if found or not isinstance(tables, dict):
        raise WiringError(f"{path}: a subscriber is a table [subscribers.NAME], and there is nothing else in it")
    return {name: _subscriber(path, name, table) for name, table in tables.items()}


def _subscriber(path: Path, name: str, table: Any) -> Subscriber:
    if not isinstance(table, dict):
        raise WiringError(f"{path}: [subscribers.{name}] is a table of url, events and secrets")
    try:
        return Subscriber.model_validate({**table, "name": name})
    except ValidationError as error:
        raise WiringError(f"{path}: subscriber {name}: {sentence_of(error)}") from error


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | bool | None) else str(value)


def _secret(reference: str, what: str) -> SigningSecret:
    kind, _, place = reference.partition(":")
    try:
        if kind == "env":
            text = os.environ.get(place, "")
        else:
            path = Path(place)
            if path.stat().st_mode & _OTHERS:
                raise WiringError(f"{what} can be read by others than its owner: `chmod 600` it")
            text = path.read_text("ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise WiringError(f"{what} cannot be read: {error}") from error
    if not text.strip():
        raise WiringError(f"{what} is not set")
    try:
        secret = SigningSecret(text.strip())
        secret.standard_key()
    except WiringError as error:
        raise WiringError(f"{what}: {error}") from error
    return secret
