"""Settings from the environment: the library's, and an application's own in the same way.

A setting is a field of a pydantic-settings class, with its type, default and `Field(description=…)`; `eventlib config`
prints those of the library.

It knows the settings of the packages below it. Begin with `settings`; `eventlib.ground.variables` reads one class.
"""

from typing import TYPE_CHECKING

from eventlib.ground.facade import lazy

if TYPE_CHECKING:
    from eventlib.config.settings import credentials, eventlib_settings, runtime_config
    from eventlib.ground.url import no_userinfo
    from eventlib.ground.variables import SettingsError, read_settings

__all__ = [
    "SettingsError",
    "credentials",
    "eventlib_settings",
    "no_userinfo",
    "read_settings",
    "runtime_config",
]

if not TYPE_CHECKING:  # a type checker would take it for a sign that any name is there
    __getattr__ = lazy(__name__)
