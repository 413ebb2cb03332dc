"""Log URLs: which are files, and their text without credentials; and host names."""

import re
from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from eventlib.errors import WiringError

if TYPE_CHECKING:
    from pydantic import AfterValidator

_FILE = "sqlite:///"
_USERINFO = re.compile(r"(:/{1,2})[^\s/?#]*@")
_PASSWORD = re.compile(r"(?i)([?&](?:ssl)?password=)[^\s&#'\"]*")


def log_file(url: str) -> Path | None:
    """Return the file of a log's URL, `sqlite:///relative.db` or `sqlite:////absolute.db`; None for other logs."""
    path = url.removeprefix(_FILE)
    return Path(path) if path and path != url else None


def has_userinfo(url: str) -> bool:
    """Whether a URL has a user or a password."""
    try:
        return "@" in urlsplit(url).netloc
    except ValueError:  # not a URL: look for the form of a user
        return _USERINFO.search(url) is not None


def without_userinfo(text: str) -> str:
    """Return a text with users and passwords removed from its URLs."""
    return _PASSWORD.sub(r"\1…", _USERINFO.sub(r"\1…@", text))


def refused_userinfo(instead: str) -> str:
    """Return the message about a URL with credentials; `instead` is the remedy."""
    return f"a URL is shown in messages and kept in records, so no user and password belong there: {instead}"


def refuse_userinfo(url: str, what: str, instead: str) -> None:
    """Refuse a URL with credentials; `what` names where it was given. Raises: WiringError."""
    if has_userinfo(url):
        raise WiringError(f"{what}: {refused_userinfo(instead)}")


def no_userinfo(instead: str) -> "AfterValidator":
    """Return the validator of a setting that is a URL."""
    from pydantic import AfterValidator

    def check(url: object) -> object:
        if url is not None and has_userinfo(str(url)):
            raise ValueError(refused_userinfo(instead))
        return url

    return AfterValidator(check)


@lru_cache(maxsize=1_024)
def is_loopback(host: str) -> bool:
    """Whether a host is this machine only: `localhost`, 127.0.0.0/8 or ::1, also in brackets."""
    name = host.removeprefix("[").removesuffix("]")
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name.lower() == "localhost"


_LABEL = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)")  # with the underscore that container networks allow
_LONGEST = 253


def is_host(name: str) -> bool:
    """Whether a text is an IP address or a syntactically valid host name (RFC 1123, after IDNA)."""
    if ":" in name:
        return is_address(name.removeprefix("[").removesuffix("]"))
    try:
        ascii_name = name.encode("idna").decode("ascii").removesuffix(".")
    except UnicodeError:
        return False
    return 0 < len(ascii_name) <= _LONGEST and all(_LABEL.fullmatch(label) for label in ascii_name.split("."))


@lru_cache(maxsize=1_024)
def is_address(text: str) -> bool:
    """Whether a text is an IP address."""
    try:
        ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return True
