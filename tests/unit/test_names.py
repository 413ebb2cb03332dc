"""Names: one nearly right is suggested, one in small letters is the same everywhere, and any key is the end of an address."""

from urllib.parse import urljoin

import httpx
import pytest
from fastapi import FastAPI

from eventlib.console.rendering import path_of
from eventlib.ground.arguments import did_you_mean
from eventlib.http.paths import KEY
from eventlib.values import snake_case


@pytest.mark.parametrize("name", ["OrderSubmited", "ordersubmitted", "OrderSubmittd"])
def test_a_name_nearly_right_is_suggested(name: str) -> None:
    assert did_you_mean(name, ["CancelSubmitted", "OrderSubmitted"]) == "did you mean OrderSubmitted? "


def test_a_name_that_resembles_none_is_not() -> None:
    assert did_you_mean("nobody", ["talk"]) == ""
    assert did_you_mean("nobody", []) == ""


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


@pytest.mark.parametrize(
    "key", [".", "..", "~.", "~..", "~~..", "~", "...", "~a", "a/../b", "%2e%2e", "a\nb", "a b?c#d", "é"]
)
async def test_a_key_comes_back_from_its_address(key: str) -> None:
    app = FastAPI()
    app.get(f"/saga/{KEY}")(lambda key: {"key": key})
    app.get(f"/parked/{KEY}/retry")(lambda key: {"key": key})
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as client:
        for path in (path_of("saga", key), f"{path_of('parked', key)}/retry"):
            answer = await client.get(urljoin("http://here/sagas", path))  # as a browser resolves a link
            assert answer.json() == {"key": key}, path
