"""Public packages import a name's home when the name is first asked for: one name does not cost the imports of all."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from sys import modules


def lazy(
    package: str, homes: Mapping[str, Sequence[str]], renamed: Mapping[str, str] | None = None
) -> Callable[[str], object]:
    """Return a package's `__getattr__`, given the names that each of its home modules defines.

    The package imports the same names under `TYPE_CHECKING`, for type checkers and editors. `renamed` maps names of
    earlier releases to those of today; asking for one raises ImportError with the line to write instead.
    """
    before = renamed or {}
    home_of = {name: home for home, names in homes.items() for name in names}

    def attribute(name: str) -> object:
        if name in before:
            raise ImportError(f"{package}.{name} has another name now: write `from {package} import {before[name]}`")
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(f"eventlib.{home_of[name]}"), name)
        setattr(modules[package], name, found)
        return found

    return attribute
