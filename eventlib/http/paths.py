"""Addresses whose last part is a key."""

import re
from typing import ClassVar
from urllib.parse import quote

from starlette.convertors import PathConvertor, register_url_convertor

_DOTS = re.compile(r"~*\.{1,2}")


class _KeyConvertor(PathConvertor):
    """Starlette's `path` matches no line break, and a key may have one."""

    regex: ClassVar[str] = r"[\s\S]*"

    def convert(self, value: str) -> str:
        """Return the key that `segment_of` has made this of."""
        return value.removeprefix("~") if _DOTS.fullmatch(value) else value


register_url_convertor("key", _KeyConvertor())

KEY = "{key:key}"
"""The part of a route that takes a key of any characters; `.` and `..` come as `~.` and `~..`."""


def segment_of(key: str) -> str:
    """Return a key as a part of an address; clients resolve `.` and `..`, however they are quoted, so `~` is put before them."""
    return quote(f"~{key}" if _DOTS.fullmatch(key) else key, safe="")
