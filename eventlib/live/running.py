"""Runs live views in this process, or resets them so that all is computed again."""

import asyncio
import importlib
import shutil
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from yarl import URL

from eventlib.contracts.view_manifest import views_module
from eventlib.errors import WiringError
from eventlib.ground.tasks import cancelled, first_of
from eventlib.identity.identity import identity_of
from eventlib.live.app import LiveApp
from eventlib.log.kafka.admin import forget_group
from eventlib.log.open import open_port
from eventlib.model.choreography import Choreography
from eventlib.model.service import Service


def load_views(choreography: Choreography, services: Sequence[Service]) -> list[LiveApp]:
    """Import the live views of services: `app` in the module `views` beside the service's own.

    Raises: WiringError when a service that is named has none.
    """
    found = list[LiveApp]()
    for service in services:
        module = views_module(service)
        try:
            views = importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name != module:
                raise
            raise WiringError(f"service {service.name} has no live views: write them into {module}") from error
        app = getattr(views, "app", None)
        if not isinstance(app, LiveApp):
            raise WiringError(f'{module} has no live views: write app = LiveApp({choreography.name}, "{service.name}")')
        found.append(app)
    return found


async def run_views(
    apps: Sequence[LiveApp],
    http: tuple[str, int] | None,
    stop: "asyncio.Future[None]",
    when_started: Callable[[], None],
) -> None:
    """Start views, wait until they are to stop, and stop them.

    With `http` their pages are at ports in a row, the first of which is given. Raises: what any of them failed with.
    """
    if http is not None:  # before anything starts
        identity_of().refuse_open(http[0], f"--http {http[0]}:{http[1]}")
    for number, app in enumerate(apps):
        _configure(app, http, number)
    starting = [asyncio.ensure_future(app.start()) for app in apps]
    failing = [asyncio.ensure_future(app.failed()) for app in apps]
    try:
        await first_of(stop, *failing, asyncio.gather(*starting))
        if not stop.done():
            when_started()
            await first_of(stop, *failing)
    finally:
        await cancelled(*starting, *failing)
        for app in apps:
            await app.stop()


def _configure(app: LiveApp, http: tuple[str, int] | None, number: int) -> None:
    app.finalize()
    if http is None:
        app.conf.web_enabled = False
        return
    host, port = http
    app.conf.web_bind = app.conf.web_host = host
    app.conf.web_port = port + number
    app.conf.canonical_url = URL.build(scheme="http", host=_reached(host), port=port + number)


def _reached(host: str) -> str:
    """Return where other workers reach what listens at an address: 0.0.0.0 is an address for this machine only."""
    return socket.getfqdn() if host in {"0.0.0.0", "::"} else host  # noqa: S104  nothing listens because of it


async def reset_views(app: LiveApp) -> Sequence[str]:
    """Forget what a service's views have computed, and return the names of the topics that went.

    What they have published (alerts, derived topics) stays, and is published again under the same ids. Tables on other
    machines are distinguished from those of now by their changelogs, and dropped there.
    They are made again, empty: who runs views need not have the right to.
    Raises: ContractError while the views run; LogUnavailable, LogDenied.
    """
    await forget_group(app.connection.url, app.connection.options.group(app.viewing.group))
    port = await open_port(app.connection.url)
    try:
        there = await port.topics()
        names = [topic.name for topic in app.own_topics() if topic.name in there]
        await port.delete_topics(names)
        await port.create_topics(app.own_topics())
        _drop_tables(app.directory(port.log_id).parent, app.of)
    finally:
        await port.close()
    return names


def _drop_tables(directory: Path, service: str) -> None:
    for found in directory.glob(f"{service}-*"):
        shutil.rmtree(found)
