"""`eventlib run`: the services, until they are stopped."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eventlib.choreography import Choreography
from eventlib.cli.options import Place
from eventlib.cli.project import load_choreography
from eventlib.cli.stopping import stop_signal
from eventlib.cli.workers import supervise
from eventlib.configured import refuse_wrong
from eventlib.errors import WiringError
from eventlib.eventlog import EventLog
from eventlib.opening import open_log
from eventlib.runtime import Runtime, RuntimeConfig, collect_garbage_seldom
from eventlib.runtime.host import Restoring
from eventlib.runtime.runtime import prepare_own
from eventlib.settings import eventlib_settings, runtime_config
from eventlib.telemetry.logs import set_up_logging, tell
from eventlib.telemetry.options import TelemetryOptions, telemetry_options

if TYPE_CHECKING:
    from eventlib.cli.http import Listening
    from eventlib.telemetry.process import Telemetry

_TELLS_S = 2.0


@dataclass(frozen=True, slots=True)
class Running:
    """What a process runs: the services of these names, and the application's HTTP and metrics at places if they are given."""

    services: Sequence[str]
    http: str | None = None
    metrics: str | None = None


def run_services(
    place: Place,
    only: list[str],
    http: str | None = None,
    *,
    no_services: bool = False,
    workers: int | None = None,
    metrics: str | None = None,
) -> None:
    """Run services (those named, all, or none) and HTTP until SIGINT or SIGTERM, or until something fails for good.

    With `workers`, in so many processes, the first of which has the HTTP; metrics are at a port of each of them.
    """
    choreography = load_choreography(place.app)
    named = [choreography.service(name).name for name in only]
    names = [] if no_services else named or [service.name for service in choreography.services]
    _refuse_misfits(choreography, names, http, named if no_services else [])
    refuse_wrong(choreography.settings, place.url)
    options, settings = telemetry_options(), eventlib_settings()
    measured = None if options.sdk_disabled else metrics or options.metrics_place
    what = Running(list(dict.fromkeys(names)), http, measured)
    config = runtime_config()
    set_up_logging(settings.log_format, settings.log_level)
    if workers is not None:
        _refuse_workers(place, what)
        asyncio.run(_supervise(choreography, what, place, workers))
        return
    collect_garbage_seldom()
    asyncio.run(_serve(choreography, what, place.url, _Tuning(config, options)))


def _refuse_misfits(choreography: Choreography, names: list[str], http: str | None, unwanted: list[str]) -> None:
    ports = sorted({port for name in names for port in choreography.service(name).ports})
    if ports and choreography.ports is None:
        raise WiringError(
            f"effects speak to {', '.join(ports)}, and nobody opens that: give the choreography a function that does, "
            f"Choreography({choreography.name!r}, ..., ports=open_outside)"
        )
    if unwanted:
        raise WiringError(f"--no-services and --service {unwanted[0]} contradict each other: leave one out")
    if http is None and not names:
        raise WiringError("--no-services leaves nothing to run: give --http PORT with it")
    if http is not None and choreography.http is None:
        raise WiringError(
            f"{choreography.name} has no HTTP: give the choreography a function that makes its app, "
            f"Choreography({choreography.name!r}, ..., http=make_app)"
        )


def _refuse_workers(place: Place, what: Running) -> None:
    if place.url.startswith("memory:"):
        raise WiringError(
            f"{place.url} lives in one process, so there is nothing for --workers to share: name another log"
        )
    if not what.services:
        raise WiringError("--workers run services, and with --no-services there are none: leave one out")


async def _supervise(choreography: Choreography, what: Running, place: Place, workers: int) -> None:
    stop = stop_signal()
    # Whatever is wrong with settings or the log is said here, once; and workers do not all create topics at a time.
    async with AsyncExitStack() as stack:
        _, log = await _open(stack, choreography, what, place.url)
        await prepare_own(log, [choreography.service(name) for name in what.services])
    if stop.done():
        return
    tell(f"Running {', '.join(what.services)} on {place.url} in {workers} processes; Ctrl-C stops.")
    own = ["run", *(["--app", place.app] if place.app else []), "--log", place.url]
    own += [option for name in what.services for option in ("--service", name)]
    command = [sys.executable, "-m", "eventlib.cli.supervised", *own]
    await supervise([command + _served_by(what, number) for number in range(workers)], stop)
    tell("Stopped.")


async def _open(
    stack: AsyncExitStack, choreography: Choreography, what: Running, url: str
) -> tuple[dict[str, object], EventLog]:
    """Open the outside world and the log."""
    # The outside world first: a wrong setting of it should not leave a new log behind.
    opens = choreography.ports if any(choreography.service(name).ports for name in what.services) else None
    ports = {} if opens is None else await stack.enter_async_context(opens(url))
    needed = what.services if what.http is None else None  # HTTP may publish and read whatever there is
    event_log = await stack.enter_async_context(open_log(url, choreography, services=needed))
    return dict(ports), event_log


def _served_by(what: Running, number: int) -> list[str]:
    """Return the options of one of several processes: the first has the HTTP, and each its metrics, at ports in a row."""
    http = ["--http", what.http] if what.http is not None and number == 0 else []
    if what.metrics is None:
        return http
    host, _, port = what.metrics.rpartition(":")
    own = str(int(port) + number) if port.isdecimal() and port != "0" else port
    return [*http, "--metrics-port", f"{host}:{own}" if host else own]


@dataclass(frozen=True, slots=True)
class _Tuning:
    """How a process runs, and what it tells."""

    config: RuntimeConfig
    options: TelemetryOptions


async def _serve(choreography: Choreography, what: Running, url: str, tuning: _Tuning) -> None:
    async with AsyncExitStack() as stack:
        listening = None if what.http is None else stack.enter_context(closing(_listening(what.http)))
        measured = (
            None if what.metrics is None else stack.enter_context(closing(_listening(what.metrics, "--metrics-port")))
        )
        ports, event_log = await _open(stack, choreography, what, url)
        telemetry = _telemetry(stack, choreography, url, tuning.options, metrics=measured is not None)
        stop = stop_signal()
        watched: list[asyncio.Future[None]] = [stop]
        runtime: Runtime | None = None
        if what.services:
            observer = None if telemetry is None else telemetry.recorder
            runtime = Runtime(event_log, ports=ports, services=what.services, config=tuning.config, observer=observer)
            failed = asyncio.ensure_future((await stack.enter_async_context(runtime)).failed())
            restoring = asyncio.create_task(_tell_restoring(runtime))
            stack.callback(failed.cancel)
            stack.callback(restoring.cancel)
            watched.append(failed)
        if telemetry is not None:
            telemetry.observe(event_log, runtime, tuning.config)
            if measured is not None:
                watched.append(await stack.enter_async_context(measured.serve(telemetry.metrics)))
        if listening is not None and choreography.http is not None:
            app = choreography.http(event_log)
            traced = app if telemetry is None else telemetry.traced(app)
            watched.append(await stack.enter_async_context(listening.serve(traced)))
        places = [listening.url] if listening is not None else []
        places += [f"metrics at {measured.url}/metrics"] if measured is not None else []
        tell(f"Running {', '.join([*what.services, *places])} on {url}; Ctrl-C stops.")
        await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
        for each in watched:
            if each.done():
                each.result()
        tell("Stopping: finishing what is at hand.")
    tell("Stopped.")


def _telemetry(
    stack: AsyncExitStack, choreography: Choreography, url: str, options: TelemetryOptions, *, metrics: bool
) -> "Telemetry | None":
    """Begin to tell what was asked for; a process that tells nothing does without OpenTelemetry."""
    if options.sdk_disabled or not (options.traces or metrics):
        return None
    try:
        from eventlib.telemetry.process import telemetry_of
    except ModuleNotFoundError as error:
        raise WiringError(
            f"traces and metrics need the package {error.name}: install eventlib-sagas[telemetry]"
        ) from error
    return stack.enter_context(telemetry_of(choreography, url, options, metrics=metrics))


async def _tell_restoring(runtime: Runtime) -> None:
    """Say every now and then how far the tasks have come whose states are being read from the log."""
    while True:
        await asyncio.sleep(_TELLS_S)
        for line in restoring_lines(runtime.restoring):
            tell(line)


def restoring_lines(restoring: Mapping[tuple[str, int], Restoring]) -> list[str]:
    """Return a line for each service that has tasks being restored: how far they have come together."""
    lines = list[str]()
    for service in sorted({service for service, _ in restoring}):
        theirs = [each for (name, _), each in restoring.items() if name == service]
        come, left = sum(each.at - each.began for each in theirs), sum(each.end - each.at for each in theirs)
        tasks = "1 task" if len(theirs) == 1 else f"{len(theirs)} tasks"
        share = f"{come / (come + left):.0%} of {come + left:,} changelog records"
        lines.append(f"{service}: restoring {tasks}, {share}")
    return lines


def _listening(place: str, option: str = "--http") -> "Listening":
    from eventlib.cli.http import Listening  # a process without HTTP does without uvicorn

    return Listening(place, option=option)
