"""One process of `eventlib run`: starts its HTTP first, then the log and the services on it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from eventlib.cli._common.late import LateApp
from eventlib.cli._common.metrics import started_telemetry
from eventlib.cli._common.output import counted
from eventlib.cli._common.stopping import Stopped, starting_up, unless_stopped
from eventlib.eventlog import EventLog
from eventlib.ground.startup import Startup
from eventlib.ground.tasks import cancelled, first_of
from eventlib.http.serving import Listening, Server, gated, metered
from eventlib.identity.identity import identity_of
from eventlib.model.choreography import Choreography
from eventlib.model.project import nearest
from eventlib.opening import open_log
from eventlib.operations.deployments import recording
from eventlib.runtime.config import RuntimeConfig
from eventlib.runtime.context import RestoreProgress
from eventlib.runtime.runtime import Runtime
from eventlib.telemetry.logs import tell
from eventlib.telemetry.options import TelemetryOptions

if TYPE_CHECKING:
    from eventlib.telemetry.process import Telemetry


_TELLS_S = 2.0


OWN_SCHEMAS = "the schemas of its states and notes"


@dataclass(frozen=True, slots=True)
class Running:
    """The services that a process runs, the addresses of its HTTP and metrics if given, and the code's revision if that is given."""

    services: Sequence[str]
    http: str | None = None
    metrics: str | None = None
    revision: str = ""

    @property
    def name(self) -> str:
        """A word or two for people."""
        return ", ".join(self.services) or "HTTP"


First = Callable[[Choreography, Sequence[str], Startup], Awaitable[None]]
"""A step that has to end before a process opens the log to write."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """How a process runs, and what it reports; `first` has to end before it owns anything."""

    config: RuntimeConfig
    options: TelemetryOptions
    first: First | None = None


async def serve_until(
    stop: "asyncio.Future[None]", choreography: Choreography, what: Running, url: str, tuning: Tuning
) -> None:
    """Run services and HTTP until `stop` is done, waiting for what is not available yet. Raises: terminal errors."""
    with starting_up(url, tuning.config.state_dir, what.name) as startup, suppress(Stopped):
        async with AsyncExitStack() as stack:
            async with unless_stopped(stop):
                process = _Process(choreography, what, url, tuning, startup)
                await process.start(stack)
            tell(f"Running {', '.join([*what.services, *process.places])} on {url}; Ctrl-C stops.")
            await first_of(stop, *process.watched)
            tell("Stopping: finishing the inputs in progress.")
    tell("Stopped.")


async def open_ports_and_log(
    stack: AsyncExitStack, choreography: Choreography, what: Running, url: str, startup: Startup
) -> tuple[dict[str, object], EventLog]:
    """Open the external systems and the log, as soon as they are available."""
    # External systems first: a wrong setting of theirs must not leave a new log behind.
    opens = choreography.ports if any(choreography.service(name).ports for name in what.services) else None
    ports = {} if opens is None else await startup.enter(stack, "the ports of effects", lambda: opens(url))
    needed = what.services if what.http is None else None  # HTTP may publish and read everything
    opened = await startup.enter(stack, f"the log {url}", lambda: open_log(url, choreography, services=needed))
    return dict(ports), opened


class _Process:
    """One process of `eventlib run`: its HTTP starts first, and reports what the rest waits for.

    `watched` are tasks that end only on failure, `places` are its HTTP addresses.
    """

    def __init__(self, choreography: Choreography, what: Running, url: str, tuning: Tuning, startup: Startup) -> None:
        self.watched = list[asyncio.Future[None]]()
        self.places = list[str]()
        self._choreography = choreography
        self._what = what
        self._url = url
        self._tuning = tuning
        self._startup = startup

    async def start(self, stack: AsyncExitStack) -> None:
        """Start everything. Raises: errors that do not pass."""
        what, options, identity = self._what, self._tuning.options, identity_of()
        listening, measured = (
            None if at is None else stack.enter_context(closing(Listening(at, option=option, identity=identity)))
            for at, option in ((what.http, "--http"), (what.metrics, "--metrics-port"))
        )
        telemetry = started_telemetry(stack, self._choreography, self._url, options, metrics=measured is not None)
        late = LateApp(lambda: self._startup.lacks)
        servers: list[Server] = []
        if listening is not None:
            servers.append(await stack.enter_async_context(listening.serve(late)))
            self.places.append(listening.url)
        if measured is not None and telemetry is not None:
            telemetry.waits_for = lambda: self._startup.lacks
            servers.append(await stack.enter_async_context(measured.serve(metered(telemetry.metrics, identity))))
            self.places.append(f"metrics at {measured.url}/metrics")
        self.watched += [server.task for server in servers]
        event_log = await self._run(stack, telemetry)
        if listening is not None and self._choreography.http is not None:
            app = gated(self._choreography.http(event_log), identity)
            traced = app if telemetry is None else telemetry.traced(app)
            await self._startup.enter(stack, "the state of its HTTP app", lambda: late.opened(traced))
        for server in servers:
            stack.push_async_callback(server.stop)  # before what it answers from is closed

    async def _run(self, stack: AsyncExitStack, telemetry: "Telemetry | None") -> EventLog:
        """Open the log, and run the services on it."""
        what, config = self._what, self._tuning.config
        if self._tuning.first is not None:
            await self._tuning.first(self._choreography, what.services, self._startup)
        ports, event_log = await open_ports_and_log(stack, self._choreography, what, self._url, self._startup)
        runtime: Runtime | None = None
        if what.services:
            observer = None if telemetry is None else telemetry.recorder
            runtime = Runtime(
                event_log, ports=ports, services=what.services, config=config, observer=observer, startup=self._startup
            )
            entered = runtime
            await self._startup.enter(stack, OWN_SCHEMAS, lambda: entered)
            failed = asyncio.ensure_future(runtime.failed())
            restoring = asyncio.create_task(_tell_restoring(runtime))
            stack.callback(failed.cancel)
            stack.callback(restoring.cancel)
            self.watched.append(failed)
            noting = recording(event_log, what.services, what.revision, nearest(Path.cwd())[0])
            stack.push_async_callback(cancelled, asyncio.create_task(noting, name="record of the deployment"))
        if telemetry is not None:
            telemetry.observe(event_log, runtime, config)
        return event_log


async def _tell_restoring(runtime: Runtime) -> None:
    """Print now and then how far the tasks that restore their state from the log have come."""
    while True:
        await asyncio.sleep(_TELLS_S)
        for line in restoring_lines(runtime.restoring):
            tell(line)


def restoring_lines(restoring: Mapping[tuple[str, int], RestoreProgress]) -> list[str]:
    """Return a line for each service with tasks being restored: their progress together."""
    lines = list[str]()
    for service in sorted({service for service, _ in restoring}):
        theirs = [each for (name, _), each in restoring.items() if name == service]
        come, left = sum(each.at - each.began for each in theirs), sum(each.end - each.at for each in theirs)
        tasks = counted(len(theirs), "task")
        share = f"{come / (come + left):.0%} of {come + left:,} changelog records"
        lines.append(f"{service}: restoring {tasks}, {share}")
    return lines
