"""The order API of running services, from which all orders are read."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from time import sleep
from typing import Any, Self
from urllib.parse import quote

import httpx

from analytics.reconciling.expected import Row
from eventlib.config.settings import credentials
from eventlib.errors import ContractError, LogUnavailable
from eventlib.http.client import sync_client
from eventlib.log.url import refuse_userinfo

_PAGE = 200
_TRIES = 5
_PAUSE_S = 0.5
_TIMEOUT_S = 30.0

FIELDS = (
    *("status", "reason", "customer_id", "country", "amount_cents", "currency", "line_count", "placed_at", "ended_at"),
    *("taken_cents", "refunded_cents", "tracking"),
)
"""The API's fields of an order that the tables have, too."""

_TIMES = ("placed_at", "ended_at")


class OrdersApi:
    """Queries an order API over HTTP."""

    def __init__(self, url: str, transport: httpx.BaseTransport | None = None) -> None:
        refuse_userinfo(url, "--api", "the order API takes none")
        self._url = url.rstrip("/")
        self._client = sync_client(base_url=self._url, timeout=_TIMEOUT_S, transport=transport, headers=credentials())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self._client.close()

    def orders(self) -> Iterator[tuple[str, Row]]:
        """Yield every order of the list, page by page. Raises: as `order` does."""
        cursor: str | None = None
        while True:
            page = self._get("/orders", {"limit": str(_PAGE), **({"cursor": cursor} if cursor else {})}).json()
            for each in page["orders"]:
                yield each["order_id"], _row(each)
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def order(self, order_id: str, min_position: str | None) -> tuple[Row | None, str]:
        """Return an order at or after a position, None if there is none, and the position in the answer.

        Raises: LogUnavailable when the API does not answer; ContractError when it is another one.
        """
        asked = {} if min_position is None else {"min_position": min_position}
        answer = self._get(f"/orders/{quote(order_id, safe='')}", asked)
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None, ""
        order = answer.json()
        return (None if order["status"] == "submitted" else _row(order)), order["position"] or ""

    def _get(self, path: str, params: Mapping[str, str]) -> httpx.Response:
        problem = ""
        for left in reversed(range(_TRIES)):
            try:
                answer = self._client.get(path, params=dict(params))
            except httpx.HTTPError as error:
                problem = str(error) or type(error).__name__
            else:
                if answer.is_success or (answer.status_code == httpx.codes.NOT_FOUND and path != "/orders"):
                    return answer
                problem = f"{answer.status_code} {answer.text[:200]}"
                if answer.is_client_error:
                    raise ContractError(f"{self._url}{path} is not an order API of this shop: {problem}")
            if left:
                sleep(_PAUSE_S)
        raise LogUnavailable(f"the order API at {self._url} does not answer: {problem}")


def _row(order: Mapping[str, Any]) -> Row:
    try:
        found = {name: order[name] for name in FIELDS}
    except KeyError as error:
        raise ContractError(f"an answer of the order API has no {error.args[0]}: is it another release?") from error
    return found | {name: datetime.fromisoformat(found[name]) if found[name] else None for name in _TIMES}
