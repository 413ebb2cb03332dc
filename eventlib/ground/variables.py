"""Settings of any kind, read from variables under a prefix: a wrong or unknown one is reported by its name."""

import logging
import os
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, SettingsConfigDict

from eventlib.errors import WiringError
from eventlib.ground.arguments import check_class, did_you_mean
from eventlib.ground.url import without_userinfo

S = TypeVar("S", bound=BaseSettings)

_log = logging.getLogger("eventlib.config")


class SettingsError(WiringError):
    """A setting is wrong or unknown; the sentence names it and what is expected."""


class Variables(BaseSettings):
    """Settings under EVENTLIB_…; an empty variable counts as none."""

    model_config = SettingsConfigDict(env_prefix="EVENTLIB_", env_ignore_empty=True, frozen=True, extra="forbid")


def read_settings(settings: type[S], given: Mapping[str, Any], *, also: Iterable[str] | None = ()) -> S:
    """Read settings of any kind from their variables; `also` names other fields that may be set under their prefix.

    Raises: SettingsError for a wrong value, and for an unknown variable with this prefix; unless `also` is
    None, since other code checks those.
    """
    check_class(settings, BaseSettings, "settings", "give a class: `class ShopSettings(BaseSettings, env_prefix=...)`")
    prefix = settings.model_config["env_prefix"]
    if also is not None:
        _refuse_unknown(prefix, {*settings.model_fields, *also})
    try:
        return settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        raise SettingsError("; ".join(_sentence(prefix, each) for each in error.errors())) from error


_EVERY_SERVER = "all HTTP servers of the process have it"
_AS_USER = (
    "make a token, `eventlib token NAME --role operator`, which a client sends as its password, with NAME as its user"
)
_GONE = {
    "SCHEMAS_CERTIFICATE": f"set EVENTLIB_TLS_CERTIFICATE; {_EVERY_SERVER}",
    "SCHEMAS_KEY": f"set EVENTLIB_TLS_KEY; {_EVERY_SERVER}",
    "SCHEMAS_KEY_PASSWORD": f"set EVENTLIB_TLS_KEY_PASSWORD; {_EVERY_SERVER}",
    "SCHEMAS_CA": "set EVENTLIB_REGISTRY_CA, by which clients trust a registry, too",
    "SCHEMAS_READERS": _AS_USER,
    "SCHEMAS_WRITERS": _AS_USER,
}
"""Variables EVENTLIB_… of earlier releases that are refused, with the remedy."""

_FIXED = {
    "SCHEMAS_COMPARE_PAIRS": "500,000",
    "SCHEMAS_COMPARE_S": "10 s",
    "HTTP_HEADER_BYTES": "65,536",
    "HTTP_HEADER_COUNT": "100",
    "HTTP_BODY_RATE": "10,000 bytes a second",
    "HTTP_BODY_LONGEST_S": "300 s",
    "IDENTITY_LEEWAY_S": "60 s",
    "IDENTITY_INTROSPECTION_S": "30 s",
    "KAFKA_COMPACTION_LAG_S": "0",
    "RESTORE_CHUNK": "2,000",
    "SKIPPED_INPUTS": "5,000",
    "RETRY_PAUSE_S": "0.2 s",
    "COMPARE_TOPICS_S": "5 s",
    "FLUSH_S": "5 s",
    "BLOCKED_S": "1 s",
    "BREAKER_LONGEST_PAUSE_S": "five times EVENTLIB_BREAKER_PAUSE_S",
}
"""Variables EVENTLIB_… of earlier releases that are ignored with a warning, with the value that they have now."""


def _refuse_unknown(prefix: str, names: Iterable[str]) -> None:
    known = sorted(f"{prefix}{name.upper()}" for name in names)
    for variable in sorted(os.environ):
        if variable.upper().startswith(prefix) and variable.upper() not in known:
            name = variable.upper().removeprefix("EVENTLIB_")
            if (value := _FIXED.get(name)) is not None:
                _warn_once(f"{variable} is ignored: it is {value} now; leave it out")
                continue
            hint = _GONE.get(name) or did_you_mean(variable, known).rstrip()
            hint = hint or f"known are {', '.join(known)}"
            raise SettingsError(f"there is no setting {variable}: {hint}")


@cache
def _warn_once(sentence: str) -> None:
    _log.warning(sentence)


def _sentence(prefix: str, error: ErrorDetails) -> str:
    expected = error["msg"].replace("Input should be", "expected").replace("Value error, ", "")
    if not error["loc"]:  # about several settings at once, and secrets may be among them
        return f"{prefix}…: {expected}"
    given = without_userinfo(repr(error["input"]))
    return f"{prefix}{str(error['loc'][0]).upper()}={given}: {expected[:1].lower()}{expected[1:]}"
