"""The file of subscribers that commands about webhooks name, and the log that their work is on."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from eventlib.cli._common.options import LogOptions
from eventlib.config.settings import eventlib_settings
from eventlib.errors import WiringError
from eventlib.eventlog import EventLog
from eventlib.opening import open_log
from eventlib.project import load_choreography
from eventlib.webhooks.subscribers import Subscriber, read_subscribers

T = TypeVar("T")

FileOption = Annotated[
    Path | None,
    typer.Option(
        "--subscribers",
        metavar="FILE",
        help="The subscribers, in TOML. [dim]Default: $EVENTLIB_WEBHOOKS[/dim]",
        show_default=False,
    ),
]

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The subscriber's name.", show_default=False)]


def file_of(given: Path | None) -> Path:
    """Return the file of subscribers: the option's, or the setting's. Raises: WiringError without one."""
    path = eventlib_settings(webhooks=None if given is None else str(given)).webhooks
    if path is None:
        raise WiringError("name the file of subscribers: --subscribers FILE, or EVENTLIB_WEBHOOKS")
    return Path(path)


def subscriber_of(path: Path | None, name: str) -> Subscriber:
    """Return a subscriber by its name. Raises: WiringError when there is none."""
    found = read_subscribers(file_of(path))
    if name not in found:
        known = ", ".join(found) or "none"
        raise WiringError(f"there is no subscriber {name!r} in {file_of(path)}: there are {known}")
    return found[name]


def on_log(options: LogOptions, work: Callable[[EventLog], Awaitable[T]], *, read_only: bool = False) -> T:
    """Do some work on the log, which needs no keys of personal fields, and return what it returns."""
    choreography = load_choreography(options.app)

    async def opened() -> T:
        async with open_log(options.url, choreography, services=[], read_only=read_only, personal=False) as log:
            return await work(log)

    return asyncio.run(opened())
