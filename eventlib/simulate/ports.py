"""Calls of the outside world: each one stands still, so that the schedule says what becomes of it."""

import inspect
from collections.abc import Generator
from types import coroutine
from typing import Any, NamedTuple

from eventlib.simulate.log import driven


class Call(NamedTuple):
    """A call of a port's method."""

    port: str
    on: object
    method: str
    arguments: tuple[Any, ...]
    named: dict[str, Any]

    def act(self) -> object:
        """Let it take place, and return its answer. Raises: what the port raises."""
        return driven(getattr(self.on, self.method)(*self.arguments, **self.named))


class Port:
    """Stands for one of a scenario's ports: its async methods become calls that the schedule decides about."""

    def __init__(self, name: str, on: object) -> None:
        self._name = name
        self._on = on

    def __getattr__(self, method: str) -> Any:
        found = getattr(self._on, method)
        if not inspect.iscoroutinefunction(found):
            return found

        async def called(*arguments: Any, **named: Any) -> Any:
            return await _asked(Call(self._name, self._on, method, arguments, named))

        return called


@coroutine
def _asked(call: Call) -> Generator[Call, Any, Any]:
    return (yield call)
