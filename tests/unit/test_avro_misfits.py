"""What does not fit its schema is refused when it is written, with its field's name."""

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, cast

import pytest
from pydantic import BaseModel, Field

from eventlib.codec.wire_format import FramedCodec
from eventlib.errors import ContractError, WiringError
from eventlib.log.memory import MemoryLog
from tests.apps.fields import codec_for


class Size(Enum):
    SMALL = 1
    LARGE = 2


Money = Annotated[Decimal, Field(max_digits=12, decimal_places=2)]


class Line(BaseModel):
    sku: str
    quantity: int


@dataclass(frozen=True)
class Node:
    value: int
    next: "Node | None" = None
    children: "tuple[Node, ...]" = ()


@dataclass(frozen=True)
class Loose:
    """A dataclass checks nothing by itself."""

    count: Any = field(default=0)


@dataclass(frozen=True)
class Shelf:
    on_hand: int = 0
    ratio: float = 0.0
    listed: bool = False
    at: datetime | None = None
    price: Money = Decimal(0)
    size: Size = Size.SMALL
    kind: Literal["a", "b"] = "a"
    seen: tuple[int, ...] = ()
    line: Line | None = None
    root: Node = Node(0)


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        ({"on_hand": 2**63}, "Shelf.on_hand"),
        ({"on_hand": 1.5}, "Shelf.on_hand"),
        ({"on_hand": "1"}, "Shelf.on_hand"),
        ({"on_hand": True}, "Shelf.on_hand"),
        ({"on_hand": None}, "Shelf.on_hand"),
        ({"ratio": "1.5"}, "Shelf.ratio"),
        ({"ratio": 10**400}, "Shelf.ratio"),
        ({"listed": "no"}, "Shelf.listed"),
        ({"at": datetime(2026, 1, 1)}, "Shelf.at"),  # noqa: DTZ001  that is what is refused
        ({"at": ("long", 5)}, "Shelf.at"),
        ({"price": Decimal("1.001")}, "Shelf.price"),
        ({"price": Decimal("1E+12")}, "Shelf.price"),
        ({"price": Decimal("NaN")}, "Shelf.price"),
        ({"price": 5}, "Shelf.price"),
        ({"size": "SMALL"}, "Shelf.size"),
        ({"kind": "c"}, "Shelf.kind"),
        ({"kind": ["c"]}, "Shelf.kind"),
        ({"seen": "12"}, "Shelf.seen"),
        ({"seen": [1]}, "Shelf.seen"),
        ({"seen": (1, "x")}, "Shelf.seen"),
        ({"line": "x"}, "Shelf.line"),
        ({"root": Node(2**64)}, r"Shelf.root.value"),
        ({"root": Node(0, Node(cast("int", "x")))}, r"Shelf.root.next"),
    ],
)
async def test_what_does_not_fit_is_refused_with_its_field(wrong: dict[str, Any], where: str) -> None:
    codec = await codec_for(Shelf)
    with pytest.raises(ContractError, match=f"^{where} does not fit"):
        codec.encode(Shelf(**wrong))


async def test_an_event_changed_behind_pydantics_back_is_refused_with_its_field() -> None:
    codec = await codec_for(Line)
    with pytest.raises(ContractError, match=r"^Line.quantity"):
        codec.encode(Line(sku="a", quantity=1).model_copy(update={"quantity": 1.5}))
    with pytest.raises(ContractError, match=r"^Line.sku"):
        codec.encode(Line(sku="\ud800", quantity=1))


async def test_integers_are_accepted_where_floats_are_wanted() -> None:
    codec = await codec_for(Shelf)
    assert codec.decode(Shelf, codec.encode(Shelf(ratio=2))).ratio == 2.0


async def test_a_chain_too_deep_to_be_read_is_not_written() -> None:
    def chain(length: int) -> Node:
        node = Node(0)
        for value in range(1, length):
            node = Node(value, node)
        return node

    codec = await codec_for(Node)
    assert codec.decode(Node, codec.encode(chain(200))) == chain(200)
    for length in (201, 900, 5_000):
        with pytest.raises(ContractError, match=r"^Node"):
            codec.encode(chain(length))


async def test_a_class_is_prepared_before_it_is_written() -> None:
    with pytest.raises(WiringError, match=r"Line has no schema id yet"):
        FramedCodec(MemoryLog()).encode(Line(sku="a", quantity=1))
    with pytest.raises(WiringError, match=r"Loose.count"):
        await codec_for(Loose)
