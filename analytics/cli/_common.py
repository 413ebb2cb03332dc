"""The application of the analytics' commands, and the options that they share."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from eventlib.command_line import Group, lacking
from eventlib.config.settings import eventlib_settings
from eventlib.errors import EventlibError, WiringError
from eventlib.model.project import log_of


class SparkGroup(Group):
    """Commands that work with a JVM, which may end before they do."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command. Raises: JvmEnded; WiringError when an extra's package is missing."""
        try:
            return super().invoke(ctx)
        except (EventlibError, typer.TyperException):
            raise
        except ModuleNotFoundError as error:
            lacks = lacking(error, "archive" if ctx.invoked_subcommand == "archive" else "analytics")
            if lacks is None:
                raise
            raise WiringError(lacks) from error
        except Exception:
            if "pyspark" in sys.modules:
                from analytics.session import refuse_lost_jvm

                refuse_lost_jvm()
            raise


app = typer.Typer(
    name="analytics",
    cls=SparkGroup,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["--help", "-h"]},
)

LogOption = Annotated[
    str | None,
    typer.Option(
        "--log",
        metavar="URL",
        help="sqlite:///PATH, kafka://HOST:PORT, archive:DIR or archive:s3a://BUCKET/DIR. [dim]Default: $EVENTLIB_LOG, or sqlite:///var/APP.db[/dim]",
        show_default=False,
    ),
]
AppOption = Annotated[
    str | None,
    typer.Option("--app", metavar="MODULE:NAME", help="The log's application.", show_default=False),
]
JsonOption = Annotated[bool, typer.Option("--json", metavar="", help="Print JSON, for scripts.")]


@app.callback()
def analytics() -> None:
    """Replay the whole log: archive it, rebuild tables, audit it, report on it, and compare it with live state."""


def log_url(given: str | None, app: str | None) -> str:
    """Return the log that a command uses: by default its application's. Raises: SettingsError, WiringError."""
    settings = eventlib_settings(log=given, app=app)
    return log_of(settings.log, settings.app)


def app_named(given: str | None) -> str | None:
    """Return the application that a command uses; None: as in pyproject.toml. Raises: SettingsError."""
    return eventlib_settings(app=given).app


def place(text: str) -> Any:
    """Read where tables or an archive are. Raises: WiringError."""
    from analytics.place import place_named

    found = place_named(text)
    if isinstance(found, Path) and found.is_file():
        raise typer.BadParameter(f"Directory {text!r} is a file.")
    return found


def directory(text: str) -> Path:
    """Read a directory. Raises: WiringError."""
    found = place(text)
    if not isinstance(found, Path):
        raise typer.BadParameter(f"only tables and archives can be in a bucket: name a directory instead of {text}")
    return found
