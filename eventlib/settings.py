"""What is set from outside: variables EVENTLIB_…; the command line wins over them, and they over the defaults.

| variable | means |
|---|---|
| EVENTLIB_LOG | the log's URL |
| EVENTLIB_APP | where the choreography is, `module:name`; without it `pyproject.toml` says so |
| EVENTLIB_TRACEBACK | 1: show where something unforeseen came from |
| EVENTLIB_IVY_SETTINGS | a settings file of Ivy, for fetching the broker for development from a mirror |
| EVENTLIB_REGISTRY | reserved for the schema registry's URL |
| EVENTLIB_BATCH … | the fields of `eventlib.RuntimeConfig`, in capitals |
"""

import os
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, TypeVar, get_type_hints

from pydantic import ValidationError, create_model
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, SettingsConfigDict

from eventlib.errors import WiringError
from eventlib.runtime import RuntimeConfig

DEFAULT_LOG = "sqlite:///var/shop.db"

S = TypeVar("S", bound=BaseSettings)


class SettingsError(WiringError):
    """A setting is wrong or unknown; the sentence names it and says what is expected."""


class Variables(BaseSettings):
    """Settings under EVENTLIB_…; an empty variable counts as none."""

    model_config = SettingsConfigDict(env_prefix="EVENTLIB_", env_ignore_empty=True, frozen=True, extra="forbid")


class EventlibSettings(Variables):
    """Where commands work, and how they complain."""

    log: str = DEFAULT_LOG
    app: str | None = None
    traceback: bool = False
    registry: str | None = None
    ivy_settings: str | None = None


def _fields() -> dict[str, Any]:
    default = RuntimeConfig()
    hints = get_type_hints(RuntimeConfig, include_extras=True)
    return {name: (hint, getattr(default, name)) for name, hint in hints.items()}


# RuntimeConfig's fields as variables: their types, bounds and defaults stand there, and only there.
_RuntimeSettings = create_model("_RuntimeSettings", __base__=Variables, **_fields())


def eventlib_settings(**given: Any) -> EventlibSettings:
    """Return the settings of a command; what is given, and not None, wins over the environment.

    Raises: SettingsError.
    """
    return read_settings(EventlibSettings, given, also=_RuntimeSettings.model_fields)


def runtime_config() -> RuntimeConfig:
    """Return the runtime's configuration as the environment has it. Raises: SettingsError."""
    found = read_settings(_RuntimeSettings, {}, also=EventlibSettings.model_fields)
    return RuntimeConfig(**found.model_dump())


def wants_traceback() -> bool:
    """Tell whether a person wants to see where an error came from; a wrong answer to that is a yes."""
    return os.environ.get("EVENTLIB_TRACEBACK", "0").lower() not in {"", "0", "false", "no", "off"}


def read_settings(settings: type[S], given: dict[str, Any], *, also: Iterable[str] = ()) -> S:
    """Read settings of any kind from their variables; `also` names other fields that may be set under their prefix.

    Raises: SettingsError for a wrong value, and for a variable with this prefix that nobody knows.
    """
    prefix = settings.model_config["env_prefix"]
    known = sorted(f"{prefix}{name.upper()}" for name in {*settings.model_fields, *also})
    for variable in sorted(os.environ):
        if variable.upper().startswith(prefix) and variable.upper() not in known:
            likely = get_close_matches(variable.upper(), known, n=1)
            hint = f"did you mean {likely[0]}?" if likely else f"known are {', '.join(known)}"
            raise SettingsError(f"there is no setting {variable}: {hint}")
    try:
        return settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        raise SettingsError("; ".join(_sentence(prefix, each) for each in error.errors())) from error


def _sentence(prefix: str, error: ErrorDetails) -> str:
    name = f"{prefix}{str(error['loc'][0]).upper()}" if error["loc"] else prefix
    expected = error["msg"].replace("Input should be", "expected").replace("Value error, ", "")
    return f"{name}={error['input']!r}: {expected[:1].lower()}{expected[1:]}"
