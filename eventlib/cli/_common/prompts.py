"""The user at the terminal, and what they confirm."""

import sys
from getpass import getuser

import typer

from eventlib.errors import ContractError


def user() -> str:
    """Return the name of the user who runs this command."""
    try:
        return getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return "unknown"


def signed_reason(reason: str) -> str:
    """Return a reason with the user's name. Raises: BadParameter for an empty one."""
    if not reason.strip():
        raise typer.BadParameter("give a reason: it is stored on the log", param_hint="--reason")
    return f"{user()}: {reason.strip()}"


def agree(question: str, *, yes: bool) -> None:
    """Ask before an irreversible step; `yes` is the answer given in advance.

    Raises: ContractError without a terminal; Abort when the answer is no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise ContractError("there is no terminal to confirm this on: give --yes to do it")
    typer.confirm(question, abort=True, err=True)
