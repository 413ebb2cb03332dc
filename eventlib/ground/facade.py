"""Public packages import a name's home when the name is first asked for: one name does not cost the imports of all."""

import re
from collections.abc import Callable
from importlib import import_module
from linecache import getlines
from sys import modules

_IMPORT = re.compile(r"^ +from (eventlib[\w.]*) import (\([^)]*\)|.*)$", re.MULTILINE)


def lazy(package: str) -> Callable[[str], object]:
    """Return a package's `__getattr__`, by which it has the names that it imports under `TYPE_CHECKING`, for type checkers.

    They are read from its source when the first of them is asked for.
    """
    home_of = dict[str, str]()

    def attribute(name: str) -> object:
        module = modules[package]
        if not home_of:
            source = "".join(getlines(module.__file__ or "", vars(module)))  # also where it is in an archive
            for home, names in _IMPORT.findall(source):
                home_of.update(dict.fromkeys(re.findall(r"\w+", names), home))
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(home_of[name]), name)
        setattr(module, name, found)
        return found

    return attribute
