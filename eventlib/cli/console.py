"""`eventlib console`: serves the console until it is stopped."""

from typing import TYPE_CHECKING, Annotated

from eventlib.cli._common.connectors import FileOption, OutboxesOption, SinksOption, connectors_of
from eventlib.cli._common.extras import installed_by
from eventlib.cli._common.options import InsecureOption, LogOptions, option, refuse_missing
from eventlib.eventlog import EventLog
from eventlib.model.project import load_choreography

if TYPE_CHECKING:
    from fastapi import FastAPI


def console(
    log_options: LogOptions,
    http: Annotated[str, option("--http --port", "PORT", "A port on this machine, or HOST:PORT.")] = "9000",
    insecure: InsecureOption = False,
    sinks: SinksOption = None,
    outboxes: OutboxesOption = None,
    subscribers: FileOption = None,
) -> None:
    """Serve the console, until Ctrl-C: find a saga, see why, act, in a browser.

    It runs in its own process, with an index of its own that it makes from the
    log: services pay nothing for it. Operators act, auditors look; personal
    data is masked for auditors. Without an identity (EVENTLIB_IDENTITY_…) it
    serves this machine only. People log in at the issuer with
    EVENTLIB_CONSOLE_CLIENT_ID and EVENTLIB_CONSOLE_URL, or by a named token.
    Who acted is on the log with the act, and why (`eventlib acts`). Outboxes,
    sinks and subscribers of webhooks are in the picture of the choreography.

    [dim]Examples:[/dim]
      eventlib console
      eventlib console --http 0.0.0.0:9000
    """
    with installed_by("console"):
        from eventlib.cli._common.log_server import serve_on_log
        from eventlib.config.console import console_options
        from eventlib.console.app import create_console
        from eventlib.console.sessions import SessionIdentity
        from eventlib.http.serving import serve_insecurely
        from eventlib.identity.options import identity_options

    serve_insecurely(wanted=insecure)
    choreography = load_choreography(log_options.app)
    connectors = connectors_of(choreography, sinks, outboxes, subscribers)
    refuse_missing(log_options.url)
    options = console_options()
    identity = SessionIdentity(identity_options(), options.session_s)

    def made(log: EventLog, state_dir: str) -> "FastAPI":
        return create_console(
            log, identity, options, state_dir=state_dir, connectors=connectors, app_name=log_options.app
        )

    serve_on_log("the console", choreography, log_options.url, http, identity, made)
