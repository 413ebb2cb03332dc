"""URLs: which one is a log in a file, and none with secrets, since they stand in messages, settings, records and spans."""

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from eventlib.errors import WiringError

if TYPE_CHECKING:
    from pydantic import AfterValidator

_FILE = "sqlite:///"
_USERINFO = re.compile(r"(:/{1,2})[^\s/?#]*@")


def log_file(url: str) -> Path | None:
    """Return the file of a log's URL, `sqlite:///relative.db` or `sqlite:////absolute.db`; None for a log elsewhere."""
    path = url.removeprefix(_FILE)
    return Path(path) if path and path != url else None


def has_userinfo(url: str) -> bool:
    """Whether a URL has a user, or a password."""
    try:
        return "@" in urlsplit(url).netloc
    except ValueError:  # no URL: what then has the form of a user counts
        return _USERINFO.search(url) is not None


def without_userinfo(text: str) -> str:
    """Return a text with its URLs' users and passwords left out."""
    return _USERINFO.sub(r"\1…@", text)


def refused_userinfo(instead: str) -> str:
    """Return the sentence about a URL with a user; `instead` says what to do."""
    return f"a URL is shown in messages and kept in records, so no user and password belong there: {instead}"


def refuse_userinfo(url: str, what: str, instead: str) -> None:
    """Refuse a URL with a user; `what` names where it was given. Raises: WiringError."""
    if has_userinfo(url):
        raise WiringError(f"{what}: {refused_userinfo(instead)}")


def no_userinfo(instead: str) -> "AfterValidator":
    """Return what a setting that is a URL is checked with."""
    from pydantic import AfterValidator

    def check(url: object) -> object:
        if url is not None and has_userinfo(str(url)):
            raise ValueError(refused_userinfo(instead))
        return url

    return AfterValidator(check)
