"""Warns of passwords and tokens that would leave this machine unencrypted."""

import logging
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import urlsplit

from eventlib.ground.url import is_loopback

_LOG = logging.getLogger("eventlib")


def warn_of_plaintext(secret: str, url: str, remedy: str) -> None:
    """Warn once if a secret would go to an http:// URL of another machine."""
    parts = urlsplit(url)
    if parts.scheme == "http":
        warn_of_plaintext_hosts(secret, [parts.hostname or ""], remedy)


def warn_of_plaintext_hosts(secret: str, hosts: Iterable[str], remedy: str) -> None:
    """Warn once if a secret would go unencrypted to a host other than this machine's loopback interface."""
    for host in hosts:
        if not (is_loopback(host) or host.endswith(".localhost")):
            warn_once(secret, host, remedy)


@lru_cache(maxsize=256)
def warn_once(secret: str, host: str, remedy: str) -> None:
    """Warn, unless the same was said before."""
    _LOG.warning("%s is sent to %s unencrypted: %s", secret, host, remedy)
