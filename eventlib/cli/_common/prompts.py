"""The user at the terminal, and what they confirm."""

import asyncio
import sys
from getpass import getuser
from typing import Annotated

import typer

from eventlib.cli._common.options import flag, option
from eventlib.config.settings import eventlib_settings
from eventlib.errors import ContractError
from eventlib.identity.identity import identity_of
from eventlib.identity.principal import Principal, Role, Unauthenticated

ReasonOption = Annotated[str, option("--reason", "TEXT", "Why; stored on the log, with your name.")]
YesOption = Annotated[bool, flag("--yes -y", "Do not ask.")]


def actor(display: str | None = None) -> str:
    """Return who acts by this command: the principal of EVENTLIB_TOKEN if that is set, else the machine's user.

    `display` is a name for people, which stands behind it. Raises: ContractError for a token without the role operator.
    """
    token = eventlib_settings().token
    if token is None:
        return Principal(subject=_user(), source="os", roles=frozenset(), display=display or "").by
    try:
        principal = asyncio.run(identity_of().of_token(token.get_secret_value()))
    except Unauthenticated as error:
        raise ContractError(f"EVENTLIB_TOKEN: {error}") from error
    if not principal.has(Role.OPERATOR):
        raise ContractError(f"EVENTLIB_TOKEN: this takes the role operator, which {principal.by} does not have")
    return principal.by


def _user() -> str:
    try:
        return getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return "unknown"


def signed_reason(reason: str) -> str:
    """Return a reason with the name of who acts. Raises: BadParameter for an empty one; as `actor`."""
    if not reason.strip():
        raise typer.BadParameter("give a reason: it is stored on the log", param_hint="--reason")
    return f"{actor()}: {reason.strip()}"


def agree(question: str, *, yes: bool) -> None:
    """Ask before an irreversible step; `yes` is the answer given in advance.

    Raises: ContractError without a terminal; Abort when the answer is no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise ContractError("there is no terminal to confirm this on: give --yes to do it")
    typer.confirm(question, abort=True, err=True)
