"""The options that commands share, and what they mean when they are left out."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

import typer

from eventlib.errors import ContractError
from eventlib.log import DEFAULT_URL
from eventlib.values import time_of

LOG_VARIABLE = "EVENTLIB_LOG"

AppOption = Annotated[
    str | None,
    typer.Option(
        "--app",
        metavar="MODULE:NAME",
        help="Where the choreography is. [dim]Default: app in \\[tool.eventlib] of the nearest pyproject.toml[/dim]",
        rich_help_panel="Where to look",
        show_default=False,
    ),
]
LogOption = Annotated[
    str | None,
    typer.Option(
        "--log",
        metavar="URL",
        help=f"Which log. [dim]Default: ${LOG_VARIABLE}, or {DEFAULT_URL}[/dim]",
        rich_help_panel="Where to look",
        show_default=False,
    ),
]


def _time(text: str) -> datetime:
    try:
        return time_of(text)
    except ContractError as error:
        raise typer.BadParameter(str(error)) from error


AtTime = Annotated[
    datetime | None,
    typer.Option("--at", metavar="TIME", parser=_time, help="As it stood at a time (UTC).", show_default=False),
]
CountedLogOption = Annotated[
    str | None,
    typer.Option(
        "--log",
        metavar="[URL]",
        help=f"Count on a log. [dim]Without URL: ${LOG_VARIABLE}, or {DEFAULT_URL}[/dim]",
        rich_help_panel="Where to look",
        show_default=False,
    ),
]
MetricsOption = Annotated[
    str | None,
    typer.Option(
        "--metrics-port",
        metavar="PORT",
        help="Serve metrics for Prometheus at /metrics: a port, or HOST:PORT.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", metavar="", help="Print JSON, for scripts.")]


@dataclass(frozen=True, slots=True)
class Shared:
    """The shared options that were given before the command's name."""

    app: str | None
    log: str | None

    @classmethod
    def of(cls, context: typer.Context) -> "Shared":
        """Return what was given before the name of the command that is run now."""
        found = context.find_root().obj
        return found if isinstance(found, cls) else cls(None, None)


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Where a command works: the application (None: as pyproject.toml says) and the log's URL."""

    app: str | None
    url: str

    @classmethod
    def of(cls, context: typer.Context, app: str | None, log: str | None) -> "LogOptions":
        """Return what was given after the command's name, else before it, else the environment's or the default.

        Raises: SettingsError for a variable EVENTLIB_… that is wrong or unknown.
        """
        from eventlib.config.settings import eventlib_settings

        before = Shared.of(context)
        settings = eventlib_settings(app=app or before.app, log=log or before.log)
        return cls(settings.app, settings.log)
