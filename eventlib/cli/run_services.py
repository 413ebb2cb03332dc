"""`eventlib run`: runs the services until they are stopped."""

import asyncio
import re
import sys
from contextlib import AsyncExitStack
from typing import Annotated

import typer

from eventlib.cli._common.names import ServicesOption
from eventlib.cli._common.options import InsecureOption, LogOptions, MetricsOption, flag, option
from eventlib.cli._common.stopping import Stopped, starting_up, stop_signal, unless_stopped
from eventlib.cli._common.workers import supervise
from eventlib.cli.run_process import OWN_SCHEMAS, First, Running, Tuning, open_ports_and_log, serve_until
from eventlib.config.effective import refuse_wrong
from eventlib.config.settings import eventlib_settings, runtime_config
from eventlib.errors import WiringError
from eventlib.http.serving import serve_insecurely
from eventlib.model.choreography import Choreography
from eventlib.model.project import load_choreography
from eventlib.personal.opening import has_personal
from eventlib.runtime.runtime import collect_garbage_seldom, prepare_own
from eventlib.telemetry.logs import set_up_logging, tell
from eventlib.telemetry.options import telemetry_options

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def _span(text: str) -> float:
    """Return a span of time in seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text.strip())
    if found is None or not float(found[1]):
        raise typer.BadParameter(f"{text!r} is not a span of time: write 90s, 10m or 1h")
    return float(found[1]) * _SECONDS[found[2]]


def run(  # noqa: PLR0913, PLR0917  one argument for each option
    log_options: LogOptions,
    service: ServicesOption = None,
    no_services: Annotated[
        bool, flag("--no-services", "No service: only HTTP, for services that run elsewhere.")
    ] = False,
    http: Annotated[
        str | None, option("--http", "PORT", "Serve HTTP, too: a port on this machine, or HOST:PORT.")
    ] = None,
    metrics_port: MetricsOption = None,
    insecure: InsecureOption = False,
    workers: Annotated[
        int | None, option("--workers", "N", "How many processes; one that dies is started again.", min=1, max=1_000)
    ] = None,
    revision: Annotated[
        str,
        option(
            "--revision", "REV", "The code's revision, for eventlib deployments. [dim]Default: as CI or git says[/dim]"
        ),
    ] = "",
    shadow_first: Annotated[
        float | None,
        option(
            "--shadow-first",
            "TIME",
            "Decide beside the code that runs for so long (90s, 10m, 1h), and take over only if nothing differs but "
            "what is declared.",
            parser=_span,
        ),
    ] = None,
    accept: Annotated[
        str | None,
        option(
            "--accept",
            "REASON",
            "With --shadow-first: declare what differs, with a reason, in expected-differences.toml, and end.",
        ),
    ] = None,
    as_json: Annotated[bool, flag("--json", "With --shadow-first: print its report as JSON.")] = False,
) -> None:
    """Run the services until they are stopped (Ctrl-C or SIGTERM).

    Inputs in progress are finished and committed first; a second Ctrl-C does
    not wait for that. However they end, the next start continues from the last
    commit. Processes may share a log: each partition of a service has one
    owner, and HTTP answers for all of them.

    With --workers, this process supervises: it restarts a worker that dies,
    after growing pauses, and prints the output of all; one signal stops them
    all. On Kafka they share the work; a log in one file is owned by one of
    them, and the next takes over from it.

    With --shadow-first, the services run elsewhere with other code. This
    process decides what they decide, beside them: it writes nothing, owns
    nothing, and runs no effect. A kind of difference is printed when it comes
    first. After that time, if nothing differs but what
    expected-differences.toml declares (eventlib prove diff --accept), it
    becomes one of the services' processes. Otherwise it prints its report, and
    ends with exit code 3. Time in which the services do not run does not count,
    and without any decision it waits.

    What is deployed is recorded on the log once: the version of the code and its
    revision, which is the commit that CI's variables (GITHUB_SHA, …) or the
    checkout of the application name (eventlib deployments).

    Traces go to OTEL_TRACES_EXPORTER (otlp or console), for the share of sagas
    in OTEL_TRACES_SAMPLER_ARG (0.02); EVENTLIB_LOG_FORMAT=json logs for
    machines.

    [dim]Examples:[/dim]
      eventlib run
      eventlib run --http 8000
      eventlib run --metrics-port 9464
      OTEL_TRACES_EXPORTER=otlp eventlib run
      eventlib run --http 8001 --no-services
      eventlib run --service stock --service payment
      eventlib run --service stock --workers 4 --log kafka://broker:9092/
      eventlib run --log sqlite:///var/other.db
      eventlib run --shadow-first 10m
    """
    serve_insecurely(wanted=insecure)
    first = None
    if shadow_first is not None:
        from eventlib.cli.run_shadow import ShadowFirst

        first = ShadowFirst(log_options.url, shadow_first, accept, as_json)
    elif accept is not None or as_json:
        raise typer.BadParameter("it needs --shadow-first", param_hint="--json" if accept is None else "--accept")
    run_services(
        log_options,
        service or [],
        http,
        no_services=no_services,
        workers=workers,
        metrics=metrics_port,
        first=first,
        revision=revision,
    )


def run_services(  # noqa: PLR0913  named, all but three
    log_options: LogOptions,
    only: list[str],
    http: str | None = None,
    *,
    no_services: bool = False,
    workers: int | None = None,
    metrics: str | None = None,
    first: First | None = None,
    revision: str = "",
) -> None:
    """Run services (those named, all, or none) and HTTP until SIGINT or SIGTERM, or until a terminal failure.

    With `workers`, in that many processes: the first serves HTTP, and each serves metrics at its own port. What comes `first`
    has to end before a service runs.
    """
    choreography = load_choreography(log_options.app)
    named = [choreography.service(name).name for name in only]
    names = [] if no_services else named or [service.name for service in choreography.services]
    _refuse_misfits(choreography, names, http, named if no_services else [])
    if first is not None and (not names or log_options.url.startswith("memory:")):
        raise WiringError(
            "--shadow-first proves services that run in another process: name them, and a log that both open"
        )
    refuse_wrong(choreography.settings, log_options.url)
    options, settings = telemetry_options(), eventlib_settings()
    measured = None if options.sdk_disabled else metrics or options.metrics_place
    what = Running(list(dict.fromkeys(names)), http, measured, revision.strip())
    config = runtime_config()
    set_up_logging(settings.log_format, settings.log_level, personal=has_personal(choreography))
    if workers is not None:
        _refuse_workers(log_options, what)
        asyncio.run(_supervise(choreography, what, log_options, workers, first))
        return
    collect_garbage_seldom()

    async def serve() -> None:
        await serve_until(stop_signal(), choreography, what, log_options.url, Tuning(config, options, first))

    asyncio.run(serve())


def _refuse_misfits(choreography: Choreography, names: list[str], http: str | None, unwanted: list[str]) -> None:
    ports = sorted({port for name in names for port in choreography.service(name).ports})
    if ports and choreography.ports is None:
        raise WiringError(
            f"no `ports=` factory provides {', '.join(ports)}, which these effects require: give the choreography a function "
            f"that opens them, Choreography({choreography.name!r}, ..., ports=open_outside)"
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


def _refuse_workers(log_options: LogOptions, what: Running) -> None:
    if log_options.url.startswith("memory:"):
        raise WiringError(
            f"{log_options.url} exists in one process only, so that --workers cannot share it: name another log"
        )
    if not what.services:
        raise WiringError("--workers run services, and --no-services runs none: leave one out")


async def _supervise(
    choreography: Choreography, what: Running, log_options: LogOptions, workers: int, first: First | None
) -> None:
    stop = stop_signal()
    services = [choreography.service(name) for name in what.services]
    # Errors of settings and of the log are reported here, once; and workers do not create topics all at the same time.
    try:
        with starting_up(log_options.url, runtime_config().state_dir, what.name) as startup:
            async with unless_stopped(stop), AsyncExitStack() as stack:
                if first is not None:
                    await first(choreography, what.services, startup)
                _, log = await open_ports_and_log(stack, choreography, what, log_options.url, startup)
                await startup.run(OWN_SCHEMAS, lambda: prepare_own(log, services))
    except Stopped:
        tell("Stopped.")
        return
    tell(f"Running {', '.join(what.services)} on {log_options.url} in {workers} processes; Ctrl-C stops.")
    own = ["run", *(["--app", log_options.app] if log_options.app else []), "--log", log_options.url]
    own += [option for name in what.services for option in ("--service", name)]
    own += ["--revision", what.revision] if what.revision else []
    command = [sys.executable, "-m", "eventlib.cli._common.supervised", *own]
    await supervise([command + _served_by(what, number) for number in range(workers)], stop)
    tell("Stopped.")


def _served_by(what: Running, number: int) -> list[str]:
    """Return the options of one of several processes: the first serves HTTP; metrics are at consecutive ports."""
    http = ["--http", what.http] if what.http is not None and number == 0 else []
    if what.metrics is None:
        return http
    host, _, port = what.metrics.rpartition(":")
    own = str(int(port) + number) if port.isdecimal() and port != "0" else port
    return [*http, "--metrics-port", f"{host}:{own}" if host else own]
