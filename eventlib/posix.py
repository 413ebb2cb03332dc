"""What Linux and macOS have, and Windows has not. Raises: WiringError where it is missing."""

from eventlib.errors import WiringError

try:
    import fcntl
except ModuleNotFoundError as error:
    raise WiringError(
        "this system has no fcntl, by which processes lock files: eventlib runs on Linux and macOS; on Windows use WSL "
        "(https://learn.microsoft.com/windows/wsl), or a container"
    ) from error

__all__ = ["fcntl"]
