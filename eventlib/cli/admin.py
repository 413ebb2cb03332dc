"""`eventlib admin`: serves the operators' HTTP API until it is stopped."""

from typing import TYPE_CHECKING, Annotated

from eventlib.cli._common.options import InsecureOption, LogOptions, option, refuse_missing
from eventlib.errors import WiringError
from eventlib.eventlog import EventLog
from eventlib.model.project import load_choreography

if TYPE_CHECKING:
    from fastapi import FastAPI


def admin(
    log_options: LogOptions,
    http: Annotated[str, option("--http", "PORT", "A port on this machine, or HOST:PORT.")],
    insecure: InsecureOption = False,
) -> None:
    """Serve an HTTP API for operators, until Ctrl-C: look at services, and act.

    It offers `eventlib status`, `parked`, `publish`, `rerun`, `reset` and
    `prove deploy` to other tools. It runs in its own process, on its own
    port: customers' requests cannot reach it. Reruns and previews of a
    deployment are carried out there, one by one.
    Callers carry a token of the configured identity (EVENTLIB_IDENTITY_…):
    operators act, auditors look. EVENTLIB_ADMIN_TOKEN is one more operator's.
    Without either the API does not start. /healthz is public: 200 or 503.
    Who acted is the token's name, on the log with the act (`eventlib acts`).
    With EVENTLIB_PERSONAL_MASTER operators see and edit personal fields.

    [dim]Examples:[/dim]
      EVENTLIB_ADMIN_TOKEN=$(openssl rand -hex 32) eventlib admin --http 9000
      curl -H "Authorization: Bearer $TOKEN" localhost:9000/parked
      curl -H "Authorization: Bearer $TOKEN" localhost:9000/parked/retry --json '{}'
    """
    from eventlib.admin.api import create_admin
    from eventlib.cli._common.log_server import serve_on_log
    from eventlib.config.settings import eventlib_settings
    from eventlib.http.serving import serve_insecurely
    from eventlib.identity.identity import identity_of

    serve_insecurely(wanted=insecure)
    choreography = load_choreography(log_options.app)
    refuse_missing(log_options.url)
    token, identity = eventlib_settings().admin_token, identity_of()
    if token is None and not (identity.is_configured or identity.options.insecure):
        raise WiringError(
            "the admin API is off: set EVENTLIB_ADMIN_TOKEN to a long random text, for example from `openssl rand -hex 32`, "
            "or configure an identity (EVENTLIB_IDENTITY_…)"
        )
    tokens = [] if token is None else [each.strip() for each in token.get_secret_value().split(",")]

    def made(log: EventLog, state_dir: str) -> "FastAPI":
        return create_admin(log, *tokens, state_dir=state_dir, identity=identity, app_name=log_options.app)

    serve_on_log("the admin API", choreography, log_options.url, http, None if tokens else identity, made)
