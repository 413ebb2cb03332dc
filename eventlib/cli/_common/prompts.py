"""The user at the terminal, and what they confirm."""

import sys
from getpass import getuser

import typer

from eventlib.errors import ContractError


def user() -> str:
    """Return the name of who runs this command."""
    try:
        return getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return "unknown"


def signed_reason(reason: str) -> str:
    """Return a reason with the name of who gives it. Raises: BadParameter when there is none."""
    if not reason.strip():
        raise typer.BadParameter("say why: it is kept on the log for who looks at this later", param_hint="--reason")
    return f"{user()}: {reason.strip()}"


def agree(question: str, *, yes: bool) -> None:
    """Ask before something that cannot be taken back; `yes` is the answer given before.

    Raises: ContractError when nobody is there to ask; Abort when the answer is no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise ContractError("nobody is there to agree to this: say --yes to do it")
    typer.confirm(question, abort=True, err=True)
