"""Thing's state of each customer."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Balance:
    """The units that a customer has."""

    units: int = 0
