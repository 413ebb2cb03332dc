"""Every setting that there is, as it stands now and where that comes from; secrets are named, not shown."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

from eventlib.config.settings import PARTS, EventlibSettings, eventlib_settings, variables_of
from eventlib.ground.url import without_userinfo
from eventlib.ground.variables import read_settings
from eventlib.log.kafka.options import KafkaOptions, options_in, parse_url

Source = Literal["default", "environment", "option", "pyproject.toml", "the log's URL"]


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. `value` and `default` are as JSON has them; a secret's are stars, or None."""

    part: str
    variable: str
    value: Any
    source: Source
    default: Any
    meaning: str
    secret: bool


@dataclass(frozen=True, slots=True)
class Given:
    """What is given beside the environment: options of the command line, the app that pyproject.toml names, and its log."""

    log: str | None = None
    app: str | None = None
    named_app: str | None = None
    default_log: str | None = None

    @property
    def url(self) -> str:
        """The log that is named; an empty text when none is. Raises: SettingsError."""
        return eventlib_settings(log=self.log).log or ""


def settings_now(application: Iterable[type[BaseSettings]], given: Given) -> list[Setting]:
    """Return the library's settings and an application's. Raises: SettingsError, for a wrong or unknown one."""
    refuse_wrong(application, given.url)
    return [each for part, settings in _parts(application) for each in _of(part, settings, given)]


def refuse_wrong(application: Iterable[type[BaseSettings]], url: str) -> None:
    """Refuse what is wrong or unknown among the variables that will be read. Raises: SettingsError."""
    eventlib_settings()
    for _, settings in _parts(application):
        _read(settings, Given(log=url))
    for settings in application:
        shared = [name for each in application if _prefix(each) == _prefix(settings) for name in each.model_fields]
        read_settings(settings, {}, also=shared)


def reference(application: Iterable[type[BaseSettings]]) -> str:
    """Return what every setting means and what it is by default, as Markdown."""
    lines = ["# Settings", "", "Variables of the environment; `eventlib config` prints what they are, and why."]
    part = None
    for name, settings in _parts(application):
        if name != part:
            lines += ["", f"## {name[:1].upper()}{name[1:]}", "", "| variable | default | means |", "|---|---|---|"]
            part = name
        for variable, field, default in described(settings):
            shown = "" if default is None else f"`{as_text(default)}`"
            lines.append(f"| `{variable}` | {shown} | {field.description} |")
    return "\n".join(lines) + "\n"


def described(settings: type[BaseSettings]) -> Iterator[tuple[str, FieldInfo, object]]:
    """Yield each setting's variable, its field and its default."""
    default = _plain(settings.model_construct())
    for name, variable in variables_of(settings).items():
        yield variable, settings.model_fields[name], default[name]


def as_text(value: object) -> str:
    """Return a value as a variable has it."""
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)


def _parts(application: Iterable[type[BaseSettings]]) -> list[tuple[str, type[BaseSettings]]]:
    own = [(part, settings) for part, classes in PARTS.items() for settings in classes]
    return [*own, *(("the application", settings) for settings in application)]


def _of(part: str, settings: type[BaseSettings], given: Given) -> list[Setting]:
    found, default = _read(settings, given), _plain(settings.model_construct())
    values = _plain(found)
    sources = _sources(settings, found, given)
    if settings is EventlibSettings and values["app"] is None and given.named_app is not None:
        values["app"], sources["app"] = given.named_app, "pyproject.toml"
    if settings is EventlibSettings and values["log"] is None:
        values["log"] = given.default_log
    return [
        Setting(
            part,
            variable,
            values[name],
            sources.get(name, "default"),
            default[name],
            settings.model_fields[name].description or "",
            _is_secret(settings.model_fields[name].annotation),
        )
        for name, variable in variables_of(settings).items()
    ]


def _read(settings: type[BaseSettings], given: Given) -> BaseSettings:
    if settings is EventlibSettings:
        return eventlib_settings(log=given.log, app=given.app)
    if settings is KafkaOptions and given.url.startswith("kafka:"):
        return parse_url(given.url)[1]
    return read_settings(settings, {}, also=None)


def _sources(settings: type[BaseSettings], found: BaseSettings, given: Given) -> dict[str, Source]:
    sources: dict[str, Source] = dict.fromkeys(found.model_fields_set, "environment")
    if settings is EventlibSettings:
        options = {"log": given.log, "app": given.app}
        sources |= {name: "option" for name, value in options.items() if value is not None}
    elif settings is KafkaOptions and given.url.startswith("kafka:"):
        sources |= dict.fromkeys(options_in(given.url), "the log's URL")
    return sources


def _plain(found: BaseSettings) -> dict[str, Any]:
    values = found.model_dump(mode="json")
    return {name: without_userinfo(each) if isinstance(each, str) else each for name, each in values.items()}


def _is_secret(kind: Any) -> bool:
    return kind is SecretStr or any(_is_secret(each) for each in get_args(kind))


def _prefix(settings: type[BaseSettings]) -> str:
    return settings.model_config["env_prefix"]
