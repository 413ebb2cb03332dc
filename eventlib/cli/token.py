"""`eventlib token`: makes a named token with roles."""

from pathlib import Path
from typing import Annotated

import typer

from eventlib.cli._common import output
from eventlib.cli._common.options import JsonOption, argument, option
from eventlib.identity.options import identity_options
from eventlib.identity.principal import Role
from eventlib.identity.tokens import add_token, json_of
from eventlib.telemetry.logs import tell


def token(
    name: Annotated[str, argument("NAME", "What the token is called, also on the log.")],
    role: Annotated[list[Role], typer.Option("--role", help="What it may do; may be repeated.")],
    customer: Annotated[str | None, option("--customer", "ID", "The customer of the role customer.")] = None,
    file: Annotated[
        Path | None,
        option(
            "--file", "FILE", "Add it to this file. [dim]Default: $EVENTLIB_IDENTITY_TOKENS_FILE[/dim]", dir_okay=False
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a named token for a machine; its text is printed once, and kept nowhere.

    Only its hash is stored. Servers read the file again when it changes: a
    token counts within a second, and ends when its entry is removed. Without a
    file, the entry is printed, for EVENTLIB_IDENTITY_TOKENS or a secret store.

    [dim]Examples:[/dim]
      eventlib token prometheus --role monitor --file var/tokens.json
      eventlib token web-shop --role shop --role auditor
      eventlib token c-17850 --role customer --customer 17850
    """
    path = file or identity_options().tokens_file
    text, entry = add_token(path, name, role, customer)
    if as_json:
        output.print_json([{"token": text, "entry": json_of(entry), "file": None if path is None else str(path)}])
        return
    print(text)
    line = entry.model_dump_json(exclude_none=True)
    tell(f"Token {name} is in {path}." if path is not None else f"Its entry, for the list `tokens`: {line}")
