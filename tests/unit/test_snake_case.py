"""Names in small letters: the same for tables, outcomes and reasons."""

import pytest

from eventlib.values import snake_case


@pytest.mark.parametrize(
    ("name", "small"),
    [
        ("OrderPlaced", "order_placed"),
        ("shop.OrderPlaced", "shop_order_placed"),
        ("HTTPServerDown", "http_server_down"),
        ("Order2Placed", "order2_placed"),
        ("gift-cards", "gift_cards"),
    ],
)
def test_a_name_in_small_letters(name: str, small: str) -> None:
    assert snake_case(name) == small
