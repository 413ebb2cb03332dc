"""What a setting means, said once: where it is declared."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Means:
    """A setting's meaning, beside its type: `grace_s: Annotated[float, Means("…")]`."""

    text: str
