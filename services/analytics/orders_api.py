"""The order API of running services, from which all orders are read."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from analytics.reconciling import ApiClient, Row
from eventlib import ContractError

_PAGE = 200

FIELDS = (
    *("status", "reason", "customer_id", "country", "amount_cents", "currency", "line_count", "placed_at", "ended_at"),
    *("taken_cents", "refunded_cents", "tracking"),
)
"""The API's fields of an order that the tables have, too."""

_TIMES = ("placed_at", "ended_at")


class OrdersApi(ApiClient):
    """Queries an order API over HTTP."""

    def __init__(self, url: str) -> None:
        super().__init__(url, "the order API")

    def rows(self) -> Iterator[tuple[str, Row]]:
        """Yield every order of the list, page by page. Raises: as `row` does."""
        cursor: str | None = None
        while True:
            page = self.get("/orders", {"limit": str(_PAGE), **({"cursor": cursor} if cursor else {})}).json()
            for each in page["orders"]:
                yield each["order_id"], _row(each)
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def row(self, key: str, min_position: str | None) -> tuple[Row | None, str]:
        """Return an order at or after a position, None if there is none, and the position in the answer.

        Raises: LogUnavailable when the API does not answer; ContractError when it is another one.
        """
        asked = {} if min_position is None else {"min_position": min_position}
        answer = self.get(f"/orders/{quote(key, safe='')}", asked, may_lack=True)
        if answer.status_code == HTTPStatus.NOT_FOUND:
            return None, ""
        order = answer.json()
        return (None if order["status"] == "submitted" else _row(order)), order["position"] or ""


def _row(order: Mapping[str, Any]) -> Row:
    try:
        found = {name: order[name] for name in FIELDS}
    except KeyError as error:
        raise ContractError(f"an answer of the order API has no {error.args[0]}: is it another release?") from error
    return found | {name: datetime.fromisoformat(found[name]) if found[name] else None for name in _TIMES}
