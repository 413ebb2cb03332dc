"""`eventlib mcp`: answers an assistant's questions about a log, by the Model Context Protocol, on stdin and stdout or over HTTP."""

from typing import Annotated

import typer

from eventlib.cli._common.extras import installed_by
from eventlib.cli._common.options import InsecureOption, LogOptions, option


def mcp(
    log_options: LogOptions,
    http: Annotated[
        str | None, option("--http", "PORT", "Serve many, at /mcp of a port on this machine, or HOST:PORT.")
    ] = None,
    insecure: InsecureOption = False,
) -> None:
    """Answer an assistant's questions about a log, until it hangs up; read-only.

    It speaks the Model Context Protocol on stdin and stdout: the assistant's
    program starts this command. Its tools answer as the commands do: search,
    one saga, history, a state at a time, what is parked and why, a replay with
    today's code, and SQL. None of them changes anything, and personal data is
    masked.

    With --http it serves programs that come over the network, until Ctrl-C
    (streamable HTTP). Callers carry a token of the configured identity
    (EVENTLIB_IDENTITY_…) with the role operator or auditor; without an
    identity it serves this machine only.

    [dim]Examples:[/dim]
      eventlib mcp --app services:shop --log sqlite:////srv/shop.db
      eventlib mcp --http 9100
    """
    with installed_by("mcp"):
        from eventlib.cli.mcp_server import serve, serve_over_http

    if http is None:
        if insecure:
            raise typer.BadParameter("it is for --http: stdin and stdout have no address", param_hint="--insecure")
        serve(log_options)
    else:
        serve_over_http(log_options, http, insecure=insecure)
