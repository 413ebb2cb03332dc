"""`eventlib new`: creates a service that runs, from the skeleton beside this module."""

import keyword
import re
import sys
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated, NamedTuple

from eventlib.cli._common.options import AppOnly, argument, flag, option
from eventlib.errors import WiringError
from eventlib.model.choreography import Choreography
from eventlib.model.project import load_choreography, nearest


def new(
    log_options: AppOnly,
    name: Annotated[str, argument("NAME", "The service's name: lower-case letters, digits and '-'.")],
    directory: Annotated[
        Path, option("--directory", "DIR", "The project: an existing one, or a new one.", file_okay=False)
    ] = Path(),
    saga: Annotated[bool, flag("--saga", "A saga with an effect over HTTP, a deadline, and an HTTP API.")] = False,
) -> None:
    """Create a new service that runs, with its test.

    It has events, a state, a decider, and their test. In a project with an
    application, the service joins it in a new application beside it: existing
    files do not change. Elsewhere it starts a new project.
    With --saga it is an application of its own: an effect over HTTP, a deadline
    whose passing compensates it, an HTTP API, and tests of all of them.

    [dim]Examples:[/dim]
      eventlib new loyalty
      eventlib new trips --saga --directory ../trips
    """
    names, kind = _Names(_checked(name)), _SAGA if saga else _SERVICE
    root, named = nearest(directory.resolve())
    app = log_options.app or named
    others = None if app is None else load_choreography(app, directory.resolve())
    if others is not None:
        _refuse_taken(names, others, kind)
    root = directory.resolve() if named is None else root
    wanted = _files(names, kind, root, app, others)
    there = [path for path in wanted if path.exists()] + [path for path in [root / names.package] if path.exists()]
    if there:
        raise WiringError(f"{_shown(there[0])} exists already, and nothing is overwritten: choose another name")
    for path, text in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    _tell(names, kind, root, wanted, others)


_LONGEST = 20  # a longer one would need other line breaks in the skeleton


class _Kind(NamedTuple):
    """A skeleton: its folder, its modules, the extras that it needs, and what to do with it, in commands and words."""

    folder: str
    modules: tuple[str, ...]
    extras: str
    steps: tuple[tuple[str, str], ...]


_SERVICE = _Kind(
    "skeleton",
    ("__init__.py", "events.py", "state.py", "decider.py", "app.py", "test_thing.py"),
    "cli",
    (
        ("pytest {package}", "its test"),
        ("eventlib run{app}{only}", "runs it{beside}"),
        (
            """eventlib publish {type}Requested{app} --data '{{"customer_id": "1", "units": 5}}'""",
            "sends it a request",
        ),
        ("eventlib state {service} 1{app}", "shows its state"),
    ),
)
_SAGA = _Kind(
    "skeleton/saga",
    (*_SERVICE.modules, "api.py", "bank.py", "effects.py"),
    "cli,http",
    (
        ("pytest {package}", "its tests"),
        ("uvicorn {package}.bank:bank --port 8600", "a bank for development; BANK_URL names another one"),
        ("eventlib run{app} --http 8000", "runs it, and serves its API (/docs)"),
        (
            "curl -s http://127.0.0.1:8000/orders -H 'Content-Type: application/json' -d '{{\"amount_cents\": 500}}'",
            "places an order, and prints its id",
        ),
        ("curl -s -X POST http://127.0.0.1:8000/orders/ORDER_ID/confirmation", "confirms it, within 15 minutes"),
        ("eventlib saga{app} ORDER_ID --tree", "shows what happened"),
    ),
)


_JOINED = '''"""The application with {name} in it; the services that were there before know nothing of it."""

from {module} import {imported}

from . import service

app = {others}.extended("{choreography}-with-{name}", service)
'''


_PROJECT = """[project]
name = "{name}"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["eventlib-sagas[{extras}]"]

[tool.eventlib]
app = "{package}.app:app"

[tool.ruff]
line-length = 120

[tool.mypy]
strict = true
"""


@dataclass(frozen=True, slots=True)
class _Names:
    """One name in its four spellings: `gift-cards`, `gift_cards`, `GiftCards`, `Gift cards`."""

    service: str

    @property
    def package(self) -> str:
        return self.service.replace("-", "_")

    @property
    def type(self) -> str:
        return "".join(part.capitalize() for part in self.service.split("-"))

    @property
    def words(self) -> str:
        return self.service.replace("-", " ")

    def applied(self, template: str) -> str:
        """Return a skeleton's text with this name."""
        titled = template.replace('"""Thing', f'"""{self.words.capitalize()}').replace("Thing", self.type)
        return re.sub(r'(?<!"|_)\bthing\b', self.words, titled.replace('"thing', f'"{self.service}'))


def _checked(name: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise WiringError(
            f"{name!r} is not a valid service name: lower-case letters, digits and '-', beginning with a letter"
        )
    if len(name) > _LONGEST:
        raise WiringError(
            f"{name!r} has {len(name)} letters, and {_LONGEST} is the most: topics and classes are named after it"
        )
    package = name.replace("-", "_")
    if keyword.iskeyword(package) or package in sys.stdlib_module_names or package in {"eventlib", "pydantic", "test"}:
        raise WiringError(f"a package named {package!r} would hide Python's or a library's own: choose another name")
    return name


def _refuse_taken(names: _Names, others: Choreography, kind: _Kind) -> None:
    if kind is _SAGA:
        raise WiringError(
            f"--saga writes an application of its own, and {others.name} is one already: name an empty --directory, or "
            "leave --saga out for a service that joins it"
        )
    taken = {service.name for service in others.services} | {decider.name for decider in others.deciders}
    types = {event.__name__ for event in others.events}
    if names.service in taken or any(f"{names.type}{end}" in types for end in ("Requested", "Granted", "Refused")):
        raise WiringError(f"{others.name} has a service, a decider or events named {names.service!r}: choose another")


def _files(names: _Names, kind: _Kind, root: Path, app: str | None, others: Choreography | None) -> dict[Path, str]:
    skeleton = files("eventlib.cli").joinpath(*kind.folder.split("/"))
    package = root / names.package
    found = {
        package / module.replace("thing", names.package): names.applied((skeleton / module).read_text(encoding="utf-8"))
        for module in kind.modules
    }
    if app is not None and others is not None:
        found[package / "app.py"] = _joined(names, app, others)
    elif not (root / "pyproject.toml").exists():
        found[root / "pyproject.toml"] = _PROJECT.format(name=names.service, package=names.package, extras=kind.extras)
    return found


def _joined(names: _Names, app: str, others: Choreography) -> str:
    module, _, path = app.partition(":")
    first, _, rest = path.partition(".")
    alias = "others" if first in {"app", "service"} else first
    imported = first if alias == first else f"{first} as {alias}"
    whole = f"{alias}.{rest}" if rest else alias
    return _JOINED.format(name=names.service, module=module, imported=imported, others=whole, choreography=others.name)


def _tell(names: _Names, kind: _Kind, root: Path, written: dict[Path, str], others: Choreography | None) -> None:
    said = {
        "package": names.package,
        "service": names.service,
        "type": names.type,
        "app": f" --app {names.package}.app:app" if root / "pyproject.toml" not in written else "",
        "only": f" --service {names.service}" if others is not None else "",
        "beside": ", beside the others" if others is not None else "",
    }
    steps = [(command.format(**said), what.format(**said)) for command, what in kind.steps]
    if root != Path.cwd():
        steps.insert(0, (f"cd {_shown(root)}", "the project"))
    print(f"{_shown(root / names.package)} is {'a saga' if kind is _SAGA else 'a service'} that runs:")
    for path in written:
        print(f"  {_shown(path)}")
    print("\nNext:")
    for command, what in steps:
        print(f"  {command}\n      {what}")
    print(f"\nThen make it yours: {names.package}/events.py declares its events, decider.py its decisions.")


def _shown(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
