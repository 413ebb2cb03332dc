"""Functions of Linux and macOS that Windows lacks. Raises: WiringError where they are missing."""

from eventlib.errors import WiringError

_USES = {"fcntl": "lock files", "resource": "bound what they take", "termios": "read single keys"}

try:
    import fcntl
    import resource
    import termios
except ModuleNotFoundError as error:
    raise WiringError(
        f"this system has no {error.name}, by which processes {_USES[str(error.name)]}: eventlib runs on Linux and "
        "macOS; on Windows use WSL (https://learn.microsoft.com/windows/wsl), or a container"
    ) from error

__all__ = ["fcntl", "resource", "termios"]
