"""Names of hosts: whether a text can be one at all, which is not whether there is such a host just now."""

import re
from ipaddress import ip_address

_LABEL = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)")  # with the underscore that container networks allow
_LONGEST = 253


def is_host(name: str) -> bool:
    """Tell whether a text is an IP address, or has the syntax of a host's name (RFC 1123, after IDNA)."""
    if ":" in name:
        return _is_address(name.removeprefix("[").removesuffix("]"))
    try:
        ascii_name = name.encode("idna").decode("ascii").removesuffix(".")
    except UnicodeError:
        return False
    return 0 < len(ascii_name) <= _LONGEST and all(_LABEL.fullmatch(label) for label in ascii_name.split("."))


def _is_address(text: str) -> bool:
    try:
        ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return True
