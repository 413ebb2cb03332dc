"""deploy/compose/compose.yaml as Compose reads it: its services, with what .env.example says for their variables."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[1] / "deploy"
COMPOSE = DEPLOY / "compose" / "compose.yaml"
VARIABLE = re.compile(r"\$\{(\w+):-([^}]*)\}")


@dataclass(frozen=True)
class Composed:
    """One service of the file; `target` is the stage of our Dockerfile that it is an image of, None for others' images."""

    name: str
    target: str | None
    command: tuple[str, ...]
    environment: Mapping[str, str]
    replicas: int
    healthcheck: tuple[str, ...]
    content: Mapping[str, Any]


@cache
def compose_file() -> dict[str, Any]:
    """Return the file as YAML says, with nothing put in yet."""
    found: dict[str, Any] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    return found


def example() -> dict[str, str]:
    """Return what .env.example sets."""
    lines = (COMPOSE.parent / ".env.example").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def composed() -> dict[str, Composed]:
    """Return the services by name."""
    return {name: _service(name, content) for name, content in compose_file()["services"].items()}


def image_environment(target: str) -> dict[str, str]:
    """Return the variables that the Dockerfile sets in an image, but for PATH."""
    joined = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    found, stage = dict[str, str](), ""
    for line in joined.splitlines():
        if line.startswith("FROM "):
            stage = line.split()[-1]
        elif line.startswith("ENV ") and stage in {"runtime", target}:
            found |= dict(pair.split("=", 1) for pair in line.split()[1:])
    return {name: value for name, value in found.items() if name != "PATH"}


def filled_in(text: str, values: Mapping[str, str]) -> str:
    """Return a text with its ${VARIABLE:-default} filled in."""
    return VARIABLE.sub(lambda found: values.get(found[1], found[2]), text)


def _service(name: str, content: dict[str, Any]) -> Composed:
    return Composed(
        name,
        content.get("build", {}).get("target"),
        tuple(content.get("command", ())),
        {key: filled_in(_text(value), example()) for key, value in content.get("environment", {}).items()},
        content.get("deploy", {}).get("replicas", 1),
        tuple(content.get("healthcheck", {}).get("test", ())),
        content,
    )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)
