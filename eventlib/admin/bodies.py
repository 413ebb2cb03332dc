"""What bodies of the admin API's requests have in common."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Reason = Annotated[str, Field(min_length=1, max_length=2_000, pattern=r"\S")]


class Body(BaseModel):
    """A body with known fields only."""

    model_config = ConfigDict(extra="forbid")


class ActBody(Body):
    """An act: `dry_run` only tells what would happen; with the token of such an answer it is refused when that has changed."""

    dry_run: bool = False
    as_previewed: Annotated[str, Field(max_length=100)] = ""
