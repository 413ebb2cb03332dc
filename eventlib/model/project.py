"""Finds the application: the choreography that pyproject.toml or `--app` names."""

import importlib
import sys
import tomllib
import traceback
from pathlib import Path
from typing import Any, Literal

from eventlib.errors import WiringError
from eventlib.model.choreography import Choreography

_HOW = 'write [tool.eventlib] app = "module:name" into pyproject.toml, or give --app module:name'


_HOW_TO_SIMULATE = (
    'write [tool.eventlib] simulation = "module:Class" into pyproject.toml, or give --scenario module:Class; the class '
    "is an eventlib.simulation.scenario.Scenario"
)


def load_choreography(app: str | None, start: Path | None = None) -> Choreography:
    """Import the choreography that `app` names, or else the nearest pyproject.toml that has a [tool.eventlib].

    It searches from `start` upwards; from the working directory when that is None.
    Raises: WiringError when there is none, or it cannot be imported; the message names a remedy.
    """
    directory, settings = _settings(start or Path.cwd())
    app = app or settings.get("app")
    if app is None:
        raise WiringError(f"no application is named here: {_HOW}")
    found = _load(directory, "app", app, _HOW)
    if not isinstance(found, Choreography):
        raise WiringError(f"app {app!r} is a {type(found).__name__}, not a Choreography: name the one of your services")
    return found


def log_of(url: str | None, app: str | None) -> str:
    """Return the URL of the log that is meant: `url`, or else the default of the application that is named here.

    Raises: WiringError when none is, or it cannot be imported.
    """
    if url is not None:
        return url
    if app is None and nearest(Path.cwd())[1] is None:
        raise WiringError(f"no log is named: give --log or set EVENTLIB_LOG; without, it is the application's: {_HOW}")
    return load_choreography(app).default_log


def load_simulation(scenario: str | None, start: Path | None = None) -> object:
    """Import what `scenario` names, or else `simulation` in the nearest pyproject.toml that has a [tool.eventlib].

    Raises: WiringError as `load_choreography` does.
    """
    directory, settings = _settings(start or Path.cwd())
    scenario = scenario or settings.get("simulation")
    if scenario is None:
        raise WiringError(f"no simulation is named here: {_HOW_TO_SIMULATE}")
    return _load(directory, "simulation", scenario, _HOW_TO_SIMULATE)


def load_named(option: str, named: str, start: Path) -> object:
    """Import what an option names as module:name, from the application's directory. Raises: WiringError."""
    return _load(nearest(start)[0], option, named, f"give --{option} module:name")


def named_connectors(kind: Literal["sinks", "outboxes"], start: Path) -> list[str]:
    """Return what `sinks` or `outboxes` in the nearest pyproject.toml that has a [tool.eventlib] names. Raises: WiringError."""
    directory, settings = _settings(start)
    found = settings.get(kind, [])
    if not (isinstance(found, list) and all(isinstance(each, str) for each in found)):
        raise WiringError(f'{directory / "pyproject.toml"}: {kind} is a list: write {kind} = ["module:name"]')
    return found


def nearest(start: Path) -> tuple[Path, str | None]:
    """Return the directory of the nearest pyproject.toml that names an application, and that name."""
    directory, settings = _settings(start)
    return directory, settings.get("app")


def _settings(start: Path) -> tuple[Path, dict[str, Any]]:
    """Return the directory of the nearest pyproject.toml that names an application, and its settings."""
    for directory in (start, *start.parents):
        path = directory / "pyproject.toml"
        if not path.is_file():
            continue
        try:
            settings = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get("eventlib", {})
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise WiringError(f"{path} is not valid TOML, please fix it: {error}") from error
        if "app" in settings:
            return directory, {
                name: value if name in {"sinks", "outboxes"} else str(value) for name, value in settings.items()
            }
    return start, {}


def _load(directory: Path, what: str, named: str, how: str) -> object:
    """Import `named`, a module:name; `what` and `how` go into messages: what it is for and where it is named."""
    if sys.path[:1] != [str(directory)]:
        sys.path.insert(0, str(directory))
    module_name, colon, attribute = named.partition(":")
    if not (module_name and colon and attribute):
        thing = {"app": "its choreography", "simulation": "its scenario"}.get(what, "a function")
        raise WiringError(f"{what} {named!r} does not name {thing}: {how}")
    found = _import(module_name, f"{what} {named!r}", how)
    for name in attribute.split("."):
        if not hasattr(found, name):
            raise WiringError(f"{what} {named!r}: module {module_name} has no {attribute!r}; {how}")
        found = getattr(found, name)
    return found


def _import(name: str, which: str, how: str) -> object:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise WiringError(f"{which}: there is no module {error.name!r} here; {how}") from error
        raise WiringError(f"{which} cannot be imported{_where(error)}: {error}; is it installed?") from error
    except WiringError as error:
        raise WiringError(f"{which} is wired wrongly{_where(error)}: {error}") from error
    except Exception as error:
        raise WiringError(
            f"{which} cannot be imported{_where(error)}: {type(error).__name__}: {error}; fix it there"
        ) from error


def _where(error: BaseException) -> str:
    """Return the last location outside of libraries in an import's traceback."""
    if isinstance(error, SyntaxError):
        return f" ({error.filename}:{error.lineno})"
    own = Path(__file__).parent
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<") and own not in Path(frame.filename).parents and _is_local(frame.filename)
    ]
    return f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""


def _is_local(filename: str) -> bool:
    libraries = {Path(importlib.__file__ or "").parents[1]}
    return "site-packages" not in filename and not any(library in Path(filename).parents for library in libraries)
