"""Addresses whose last part is a key."""

from typing import ClassVar

from starlette.convertors import PathConvertor, register_url_convertor


class _KeyConvertor(PathConvertor):
    """Starlette's `path` matches no line break, and a key may have one."""

    regex: ClassVar[str] = r"[\s\S]*"


register_url_convertor("key", _KeyConvertor())

KEY = "{key:key}"
"""The part of a route that takes a key of any characters."""
