"""What is set from outside: variables EVENTLIB_…; the command line wins over them, and they over the defaults.

Each setting stands once, in the class of what it is a setting of, with its type, default and description;
`eventlib config` prints them all.
"""

import os
from collections.abc import Mapping
from typing import Annotated, Any, get_type_hints

from pydantic import Field, SecretStr, create_model
from pydantic_settings import BaseSettings

from eventlib.codec.registry import RegistryOptions
from eventlib.config.console import ConsoleOptions
from eventlib.ground.url import no_userinfo
from eventlib.ground.variables import Variables, read_settings
from eventlib.http.limits import HttpLimits, Tls
from eventlib.http.registry.options import SchemasOptions
from eventlib.identity.identity import identity_of
from eventlib.identity.options import IdentityOptions
from eventlib.log.kafka.options import KafkaOptions
from eventlib.model.sampling import Sampling
from eventlib.personal.options import PersonalOptions
from eventlib.runtime.config import RuntimeConfig
from eventlib.telemetry.logs import LogFormat, LogLevel
from eventlib.telemetry.options import SdkVariables, TelemetryOptions


class EventlibSettings(Variables):
    """Where commands work, and how they complain."""

    log: Annotated[
        str | None,
        no_userinfo("set EVENTLIB_KAFKA_USER and EVENTLIB_KAFKA_PASSWORD"),
        Field(
            description="the log's URL: sqlite:///PATH or kafka://HOST:PORT,…/; unset: sqlite:///var/APP.db, where APP is "
            "the name of the choreography"
        ),
    ] = None
    app: Annotated[
        str | None, Field(description="where the choreography is, module:name; unset: from pyproject.toml")
    ] = None
    traceback: Annotated[bool, Field(description="show where something unforeseen came from")] = False
    admin_token: Annotated[
        SecretStr | None,
        Field(
            description="what requests to `eventlib admin` carry; several with commas between, while one replaces another; "
            "unset: there is no admin API"
        ),
    ] = None
    token: Annotated[
        SecretStr | None,
        Field(description="the token that commands act by; unset: they act as the user of the machine"),
    ] = None
    ivy_settings: Annotated[
        str | None,
        Field(
            description="a settings file of Ivy, for fetching a broker for development, and connectors, from a mirror"
        ),
    ] = None
    outbox_database: Annotated[
        str | None,
        Field(
            description="the database whose outbox `eventlib outbox` relays: postgresql://USER@HOST/DATABASE; its password is in PGPASSWORD or ~/.pgpass"
        ),
    ] = None
    sink_database: Annotated[
        str | None,
        Field(
            description="the database into which `eventlib sink` writes: postgresql://USER@HOST/DATABASE; its password is in PGPASSWORD or ~/.pgpass"
        ),
    ] = None
    webhooks: Annotated[
        str | None, Field(description="the file of subscribers that `eventlib webhook` delivers events to, in TOML")
    ] = None
    log_format: Annotated[
        LogFormat, Field(description="what processes write to stderr: text, or json, an object a line")
    ] = "text"
    log_level: Annotated[LogLevel, Field(description="from which level on: DEBUG, INFO, WARNING or ERROR")] = "WARNING"


def _fields() -> dict[str, Any]:
    default = RuntimeConfig()
    hints = get_type_hints(RuntimeConfig, include_extras=True)
    described = {
        name: hint
        for name, hint in hints.items()
        if any(getattr(each, "description", "") for each in hint.__metadata__)
    }
    return {name: (hint, getattr(default, name)) for name, hint in described.items()}


# RuntimeConfig's described fields as variables: their types, bounds and defaults stand there, and only there.
_RuntimeSettings = create_model("_RuntimeSettings", __base__=Variables, **_fields())

PARTS: Mapping[str, tuple[type[BaseSettings], ...]] = {
    "commands": (EventlibSettings,),
    "services": (_RuntimeSettings,),
    "HTTP servers": (HttpLimits, Tls),
    "schemas": (RegistryOptions,),
    "identity of HTTP callers": (IdentityOptions,),
    "the console": (ConsoleOptions,),
    "logs on Kafka": (KafkaOptions,),
    "personal data": (PersonalOptions,),
    "the registry of `eventlib schemas serve`": (SchemasOptions,),
    "traces and metrics": (TelemetryOptions, Sampling, SdkVariables),
}
"""Every setting of the library's own, by what it is a setting of."""


def variables_of(settings: type[BaseSettings]) -> dict[str, str]:
    """Return the name of each field's variable."""
    return {name: f"{settings.model_config['env_prefix']}{name.upper()}" for name in settings.model_fields}


def _own() -> list[str]:
    """Return the fields under EVENTLIB_… that are read."""
    names = [name for part in PARTS.values() for each in part for name in variables_of(each).values()]
    return [name.removeprefix("EVENTLIB_").lower() for name in names if name.startswith("EVENTLIB_")]


def eventlib_settings(**given: Any) -> EventlibSettings:
    """Return the settings of a command; what is given, and not None, wins over the environment.

    Raises: SettingsError.
    """
    return read_settings(EventlibSettings, given, also=_own())


def credentials() -> dict[str, str]:
    """Return the headers by which this process calls servers of its own installation.

    They have the token in EVENTLIB_TOKEN, else the installation's own; none without identity. Never send them elsewhere.
    Raises: SettingsError, WiringError.
    """
    token = eventlib_settings().token
    text = identity_of().internal_token if token is None else token.get_secret_value()
    return {"Authorization": f"Bearer {text}"} if text else {}


def runtime_config() -> RuntimeConfig:
    """Return the runtime's configuration as the environment has it. Raises: SettingsError."""
    return RuntimeConfig(**read_settings(_RuntimeSettings, {}, also=_own()).model_dump())


def wants_traceback() -> bool:
    """Tell whether a person wants to see where an error came from; a wrong answer to that is a yes."""
    return os.environ.get("EVENTLIB_TRACEBACK", "0").lower() not in {"", "0", "false", "no", "off"}
