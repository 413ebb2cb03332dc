"""What is set from outside: variables EVENTLIB_…; the command line wins over them, and they over the defaults.

| variable | means |
|---|---|
| EVENTLIB_LOG | the log's URL |
| EVENTLIB_APP | where the choreography is, `module:name`; without it `pyproject.toml` says so |
| EVENTLIB_ADMIN_TOKEN | what requests to `eventlib admin` carry; without it there is no admin API |
| EVENTLIB_TRACEBACK | 1: show where something unforeseen came from |
| EVENTLIB_LOG_FORMAT, EVENTLIB_LOG_LEVEL | `json` lets `eventlib run` log a JSON object a line (default: text); DEBUG, INFO, WARNING (the default) or ERROR |
| OTEL_… | traces and metrics: see `eventlib.telemetry.options` |
| EVENTLIB_IVY_SETTINGS | a settings file of Ivy, for fetching the broker for development from a mirror |
| EVENTLIB_REGISTRY | a schema registry's URL; without it, schema ids are kept in the log |
| EVENTLIB_REGISTRY_CA | a file with the certificates that the registry is trusted by |
| EVENTLIB_AUTO_REGISTER | whether new schemas are registered by themselves: on in the log, off with a registry |
| EVENTLIB_BATCH … | the fields of `eventlib.RuntimeConfig`, in capitals |
| EVENTLIB_SCHEMAS_… | the fields of `eventlib.registry.server.options.SchemasOptions`, for `eventlib schemas serve` |
| EVENTLIB_KAFKA_… | the fields of `eventlib.log.kafka.options.KafkaOptions`, for logs at kafka://… |
"""

import os
from typing import Any, get_type_hints

from pydantic import create_model

from eventlib.codec.options import RegistryOptions
from eventlib.log import DEFAULT_URL
from eventlib.log.kafka.options import KafkaOptions
from eventlib.registry.server.options import SchemasOptions
from eventlib.runtime import RuntimeConfig
from eventlib.telemetry.logs import LogFormat, LogLevel
from eventlib.variables import Variables, read_settings


class EventlibSettings(Variables):
    """Where commands work, and how they complain."""

    log: str = DEFAULT_URL
    app: str | None = None
    traceback: bool = False
    admin_token: str | None = None
    ivy_settings: str | None = None
    log_format: LogFormat = "text"
    log_level: LogLevel = "WARNING"


def _fields() -> dict[str, Any]:
    default = RuntimeConfig()
    hints = get_type_hints(RuntimeConfig, include_extras=True)
    return {name: (hint, getattr(default, name)) for name, hint in hints.items()}


# RuntimeConfig's fields as variables: their types, bounds and defaults stand there, and only there.
_RuntimeSettings = create_model("_RuntimeSettings", __base__=Variables, **_fields())
_OTHERS = [
    *RegistryOptions.model_fields,
    *(f"kafka_{name}" for name in KafkaOptions.model_fields),
    *(f"schemas_{name}" for name in SchemasOptions.model_fields),
]
"""What is read where a log is opened, and where schemas are served."""


def eventlib_settings(**given: Any) -> EventlibSettings:
    """Return the settings of a command; what is given, and not None, wins over the environment.

    Raises: SettingsError.
    """
    return read_settings(EventlibSettings, given, also=[*_RuntimeSettings.model_fields, *_OTHERS])


def runtime_config() -> RuntimeConfig:
    """Return the runtime's configuration as the environment has it. Raises: SettingsError."""
    found = read_settings(_RuntimeSettings, {}, also=[*EventlibSettings.model_fields, *_OTHERS])
    return RuntimeConfig(**found.model_dump())


def wants_traceback() -> bool:
    """Tell whether a person wants to see where an error came from; a wrong answer to that is a yes."""
    return os.environ.get("EVENTLIB_TRACEBACK", "0").lower() not in {"", "0", "false", "no", "off"}
