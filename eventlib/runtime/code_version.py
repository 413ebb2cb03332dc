"""The version of the code that decides: what it does, whatever its prose says."""

import ast
import hashlib
import inspect
import sys
from collections.abc import Iterator

from eventlib.choreography import Choreography


def code_version(choreography: Choreography) -> str:
    """Return a fingerprint of the modules that declare the deciders' states, events and functions (12 hex digits).

    Guarantee: comments, docstrings and layout do not change it.
    """
    modules = sorted({module for decider in choreography.deciders for module in decider.modules})
    digest = hashlib.blake2b(digest_size=6)
    for name in modules:
        try:
            tree = ast.parse(inspect.getsource(sys.modules[name]))
        except (OSError, TypeError, SyntaxError):  # no source at hand, as in a frozen program: its name has to do
            digest.update(name.encode())
        else:
            digest.update(" ".join(_parts(tree)).encode())
    return digest.hexdigest()


def _parts(value: object) -> Iterator[str]:
    """Yield what is in a syntax tree, without positions and without statements that do nothing.

    Fields that are empty are left out: each version of Python adds some, and a fingerprint should outlive them.
    """
    if isinstance(value, ast.AST):
        yield f"({type(value).__name__}"
        for name, field in ast.iter_fields(value):
            if field is not None and field != []:
                yield name
                yield from _parts(field)
        yield ")"
    elif isinstance(value, list):
        for each in value:
            if not _is_idle(each):
                yield from _parts(each)
    else:
        yield repr(value)


def _is_idle(statement: object) -> bool:
    """Tell whether a statement does nothing: a docstring, another constant on its own, or `pass`."""
    is_constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_constant or isinstance(statement, ast.Pass)
