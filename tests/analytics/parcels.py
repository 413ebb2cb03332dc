"""An event with a field of every kind, in its newest version and in those before."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field

from eventlib.external import Json
from eventlib.model.event import Event


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


@dataclass(frozen=True)
class Box:
    size: Size
    litres: float = 1.5


@dataclass(frozen=True)
class Tube:
    metres: int


class ParcelPacked(Event, topic="parcels", key="parcel_id"):
    parcel_id: str
    offset: int
    weight: Annotated[Decimal, Field(max_digits=12, decimal_places=3)]
    shapes: tuple[Box, ...]
    inside: Box | Tube | None
    marks: dict[str, int]
    by: UUID
    on: date
    at: time
    moment: datetime
    seal: bytes
    mode: Literal["air", "sea"]
    fragile: bool = False
    note: str | None = None


class Clicked(Event, topic="clicks", key=None, external=Json()):
    page: str


def _older() -> type[Event]:
    class ParcelPacked(Event, topic="parcels", key="parcel_id"):  # before it was asked whether things break
        parcel_id: str
        offset: int
        weight: Annotated[Decimal, Field(max_digits=12, decimal_places=3)]
        shapes: tuple[Box, ...]
        inside: Box | Tube | None
        marks: dict[str, int]
        by: UUID
        on: date
        at: time
        moment: datetime
        seal: bytes
        mode: str
        colour: str = "brown"

    return ParcelPacked


def _coarser() -> type[Event]:
    class ParcelPacked(Event, topic="parcels", key="parcel_id"):  # its weights have another scale
        parcel_id: str
        offset: int
        weight: Annotated[Decimal, Field(max_digits=12, decimal_places=1)]
        shapes: tuple[Box, ...]
        inside: Box | Tube | None
        marks: dict[str, int]
        by: UUID
        on: date
        at: time
        moment: datetime
        seal: bytes
        mode: str

    return ParcelPacked


OLDER, COARSER = _older(), _coarser()


def fields(i: int) -> dict[str, Any]:
    """What a parcel of any version is made of."""
    return {
        "parcel_id": f"parcel-{i}",
        "offset": -i,
        "weight": Decimal(i * 5) / 10,
        "shapes": tuple(Box(Size.LARGE if j % 2 else Size.SMALL, j / 4) for j in range(i % 4)),
        "inside": (None, Box(Size.SMALL), Tube(i))[i % 3],
        "marks": {f"m{j}": j for j in range(i % 3)},
        "by": UUID(int=i),
        "on": date(2026, 1, 1 + i),
        "at": time(i, 30, 15, 250),
        "moment": datetime(1969, 12, 31, 23, i, 59, 999_999, UTC),
        "seal": bytes(range(i)),
        "mode": "air" if i % 2 else "sea",
    }
