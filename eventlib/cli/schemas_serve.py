"""`eventlib schemas serve`: its options, and the check that its packages are installed."""

from typing import Annotated

from eventlib.cli._common.options import InsecureOption, LogOnly, option


def serve(
    log_options: LogOnly,
    port: Annotated[
        str | None,
        option(
            "--port",
            "PORT",
            "A port on this machine, or HOST:PORT. [dim]Default: $EVENTLIB_SCHEMAS_PORT, or 8081[/dim]",
        ),
    ] = None,
    compatibility: Annotated[
        str | None,
        option(
            "--compatibility", "LEVEL", "The level of subjects without their own. [dim]Default: FULL_TRANSITIVE[/dim]"
        ),
    ] = None,
    insecure: InsecureOption = False,
) -> None:
    """Serve a log's schemas with the API of a Confluent Schema Registry, until it is stopped.

    Any client of that registry can use it. It stores schemas in the log's topic
    _schemas, as an application without a registry does, so that ids agree.
    Several instances may serve one log: one of them writes, the others forward
    writes to it; when it dies, another takes over.

    Who may call it, and TLS, are settings of all servers: EVENTLIB_IDENTITY_…
    and EVENTLIB_TLS_…. A client's user is the name of a token (`eventlib token`),
    its password the token; operators write, every role reads.

    [dim]Examples:[/dim]
      eventlib schemas serve
      eventlib schemas serve --port 0.0.0.0:8081 --log kafka://broker:9092/
    """
    from eventlib.cli.schemas_server import serve_schemas
    from eventlib.http.registry.options import schemas_options
    from eventlib.http.serving import serve_insecurely

    serve_insecurely(wanted=insecure)
    serve_schemas(log_options.url, schemas_options(port=port, compatibility=compatibility))
