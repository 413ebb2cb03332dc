"""Settings from the environment: the library's, and an application's own in the same way.

A setting is a field of a pydantic-settings class, with its type, default and `Field(description=…)`; `eventlib config`
prints those of the library.
"""

from eventlib.settings import eventlib_settings, runtime_config
from eventlib.urls import no_userinfo
from eventlib.variables import SettingsError, read_settings

__all__ = ["SettingsError", "eventlib_settings", "no_userinfo", "read_settings", "runtime_config"]
