"""The options that commands share, and the log that they name."""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import datetime
from functools import wraps
from inspect import Parameter
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from eventlib.errors import ContractError, WiringError
from eventlib.values import time_of

LOG_VARIABLE = "EVENTLIB_LOG"
DEFAULT_LOG = "sqlite:///var/APP.db"


def option(names: str, metavar: str, about: str, **more: Any) -> Any:
    """Return an option with a value: its names (`--where -w`), what stands for the value, and its help."""
    return typer.Option(*names.split(), metavar=metavar, help=about, **more)


def flag(names: str, about: str, **more: Any) -> Any:
    """Return an option without a value."""
    return option(names, "", about, **more)


def argument(metavar: str, about: str, **more: Any) -> Any:
    """Return an argument: its name in the help, and its help."""
    return typer.Argument(metavar=metavar, help=about, **more)


AppOption = Annotated[
    str | None,
    option(
        "--app",
        "MODULE:NAME",
        "Where the choreography is. [dim]Default: app in \\[tool.eventlib] of the nearest pyproject.toml[/dim]",
        rich_help_panel="Application and log",
    ),
]


LogOption = Annotated[
    str | None,
    option(
        "--log",
        "URL",
        f"Which log. [dim]Default: ${LOG_VARIABLE}, or {DEFAULT_LOG}[/dim]",
        rich_help_panel="Application and log",
    ),
]


def _time(text: str) -> datetime:
    try:
        return time_of(text)
    except ContractError as error:
        raise typer.BadParameter(str(error)) from error


AtTime = Annotated[datetime | None, option("--at", "TIME", "As of a time (UTC).", parser=_time)]


SinceOption = Annotated[datetime | None, option("--since", "TIME", "From a time (UTC) on.", parser=_time)]


InsecureOption = Annotated[bool, flag("--insecure", "Let everyone in who reaches the address: no identity is needed.")]


CountedLogOption = Annotated[
    str | None,
    option(
        "--log",
        "[URL]",
        f"Count on a log. [dim]Without URL: ${LOG_VARIABLE}, or {DEFAULT_LOG}[/dim]",
        rich_help_panel="Application and log",
    ),
]


MetricsOption = Annotated[
    str | None, option("--metrics-port", "PORT", "Serve metrics for Prometheus at /metrics: a port, or HOST:PORT.")
]


WorkersOption = Annotated[
    int | None, option("--workers", "N", "How many processes share the work. [dim]Default: one per core[/dim]", min=1)
]


JsonOption = Annotated[bool, flag("--json", "Print JSON, for scripts.")]


PersonalOption = Annotated[
    bool, flag("--personal", "Show personal fields in plain text; needs EVENTLIB_PERSONAL_MASTER.")
]


@dataclass(frozen=True, slots=True)
class Shared:
    """The shared options given before the command's name."""

    app: str | None
    log: str | None

    @classmethod
    def of(cls, context: typer.Context) -> "Shared":
        """Return the options given before the name of the running command."""
        found = context.find_root().obj
        return found if isinstance(found, cls) else cls(None, None)


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The application (None: as in pyproject.toml), the log's URL (None: its default), and whether personal fields are not masked."""

    app: str | None
    named: str | None
    personal: bool = False

    @property
    def url(self) -> str:
        """The log's URL. Raises: WiringError when neither a log nor an application is named."""
        from eventlib.model.project import log_of  # it imports the model, which not every command needs

        return log_of(self.named, self.app)

    def url_for(self, choreography: "Choreography") -> str:
        """Return the log's URL, where the command has its choreography from elsewhere."""
        return self.named or choreography.default_log

    @classmethod
    def of(
        cls, context: typer.Context, app: str | None = None, log: str | None = None, *, personal: bool = False
    ) -> "LogOptions":
        """Return the options after the command's name, else before it, else the environment's or the default.

        Raises: SettingsError for a variable EVENTLIB_… that is wrong or unknown.
        """
        from eventlib.config.settings import eventlib_settings

        before = Shared.of(context)
        settings = eventlib_settings(app=app or before.app, log=log or before.log)
        return cls(settings.app, settings.log, personal)

    def deciding(self) -> "LogOptions":
        """Return the options of a command in which handlers decide: it reads personal fields where a master key is named."""
        from eventlib.personal.opening import personal_options

        return replace(self, personal=personal_options().personal_master is not None)


PersonalLog = Annotated[LogOptions, "personal", "app", "log"]
"""The application and the log of a command that can show personal fields."""
AppOnly = Annotated[LogOptions, "app"]
LogOnly = Annotated[LogOptions, "log"]
_OPTIONS = {"personal": (PersonalOption, False), "app": (AppOption, None), "log": (LogOption, None)}


def with_log_options(function: Callable[..., None]) -> Callable[..., None]:
    """Return a command as Typer reads it: with --app and --log in place of a parameter that is a LogOptions.

    In place of each other parameter that is a dataclass it has an option for each of its fields.
    """
    own = [*inspect.signature(function, eval_str=True).parameters.values()]
    taken = next(
        (each for each in own if LogOptions in (each.annotation, getattr(each.annotation, "__origin__", None))), None
    )
    sets: dict[str, Any] = {
        each.name: each.annotation for each in own if each is not taken and is_dataclass(each.annotation)
    }
    if taken is None and not sets:
        return function
    names = () if taken is None else getattr(taken.annotation, "__metadata__", ("app", "log"))

    @wraps(function)
    def command(context: typer.Context, **given: Any) -> None:
        if taken is not None:
            given[taken.name] = LogOptions.of(context, **{name: given.pop(name) for name in names})
        for name, kind in sets.items():
            given[name] = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
        function(**given)

    every = [Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    for each in own:
        if each.name in sets:
            hints = get_type_hints(each.annotation, include_extras=True)
            every += [_parameter(field.name, hints[field.name], field.default) for field in fields(each.annotation)]
        elif each is not taken:
            every.append(each.replace(kind=Parameter.KEYWORD_ONLY))
    every += [_parameter(name, *_OPTIONS[name]) for name in names]
    command.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]  # Typer reads it
    return command


def _parameter(name: str, kind: Any, default: Any) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind, default=default)


if TYPE_CHECKING:
    from pathlib import Path

    from eventlib.eventlog import EventLog
    from eventlib.model.choreography import Choreography

T = TypeVar("T")


def run_on_log(log_options: LogOptions, command: "Callable[[EventLog], Awaitable[T]]", *, missing: bool = False) -> T:
    """Run a command on an existing log, or also on a missing one if `missing`.

    Raises: WiringError when there is no such application or log.
    """
    import asyncio

    from eventlib.model.project import load_choreography
    from eventlib.opening import open_log

    choreography = load_choreography(log_options.app)
    if not missing:
        refuse_missing(log_options.url)

    async def opened() -> T:
        async with open_log(log_options.url, choreography, read_only=True, personal=log_options.personal) as log:
            return await command(log)

    return asyncio.run(opened())


def refuse_missing(url: str) -> None:
    """Refuse a missing log, for commands that only read. Raises: WiringError."""
    if url.startswith("memory:"):
        raise WiringError(f"{url} lives and ends with one process, so that there is nothing to read: name a log file")
    from eventlib.ground.url import log_file

    path = log_file(url)
    if path is not None and not path.is_file():  # other kinds of log are checked when they are opened
        raise WiringError(
            f"there is no log at {path}: `eventlib run` makes one, or name another with --log or {LOG_VARIABLE}"
        )


def path_of(url: str, what: str) -> "Path":
    """Return the file of an SQLite log's URL. Raises: WiringError for any other log, with the alternative."""
    if url.startswith("kafka:"):
        raise WiringError(
            f"{url}: {what} here is a file, and a cluster's copies are its replicas. Keep its records with `python -m "
            "analytics archive`, mirror the cluster with MirrorMaker, or take an SQLite log to Kafka with `eventlib copy`"
        )
    from eventlib.ground.url import log_file

    file = log_file(url)
    if file is None:
        raise WiringError(f"{url}: {what} here is a file, sqlite:///path/to.db")
    return file.absolute()
