"""Saved schedules: the choices of one that broke an invariant, to run it again."""

import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from eventlib.errors import ContractError
from eventlib.ground.pydantic_errors import sentence_of
from eventlib.simulation.scenario import Choice
from eventlib.simulation.search import Failure

VERSION = 1


class Saved(BaseModel):
    """A saved schedule: its application, code version and number of orders, and its choices."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: int = VERSION
    application: str
    code: str
    orders: int
    law: str  # the invariant's name, under its key in files of earlier releases
    broken: str
    choices: tuple[Choice, ...]


def save_failure(path: Path, application: str, code: str, failure: Failure) -> None:
    """Write the choices of a schedule of an application, one a line; `code` is the version that played it."""
    saved = Saved(
        application=application,
        code=code,
        orders=failure.orders,
        law=failure.violation.invariant.name,
        broken=str(failure.violation),
        choices=failure.choices,
    )
    head = json.dumps(saved.model_dump(exclude={"choices"}), indent=2, ensure_ascii=False).removesuffix("\n}")
    lines = ",\n".join(f"    {json.dumps(each)}" for each in saved.choices)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{head},\n  "choices": [\n{lines}\n  ]\n}}\n', encoding="utf-8")


def load(path: Path) -> Saved:
    """Read a saved schedule. Raises: ContractError for any other file."""
    try:
        saved = Saved.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise ContractError(f"{path} is not a saved schedule: {sentence_of(error)}") from error
    if saved.version != VERSION:
        raise ContractError(f"{path} has version {saved.version} of saved schedules; this is version {VERSION}")
    return saved
