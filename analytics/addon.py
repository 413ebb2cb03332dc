"""The package that an application adds to the analytics: `Choreography(analytics="shop.analytics")`."""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import TypeVar

from analytics.audit.application import Application
from eventlib.errors import WiringError

T = TypeVar("T")


def modules_of(application: Application) -> list[ModuleType]:
    """Return the application's package, and the modules in it; none if it adds nothing. Raises: WiringError."""
    name = application.choreography.analytics
    if name is None:
        return []
    try:
        package = import_module(name)
        inside = [each.name for each in iter_modules(getattr(package, "__path__", ()), f"{name}.")]
        return [package, *(import_module(each) for each in inside)]
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise WiringError(f"Choreography(analytics={name!r}): there is no module {error.name}") from error
        raise


def declared(application: Application, kind: type[T]) -> Iterator[T]:
    """Yield what an application's modules have of one kind. Raises: WiringError."""
    for module in modules_of(application):
        yield from of_kind(module, kind)


def of_kind(module: ModuleType, kind: type[T]) -> Iterator[T]:
    """Yield what a module has of one kind."""
    yield from (each for each in vars(module).values() if isinstance(each, kind))
