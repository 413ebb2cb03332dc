"""What of the outside world is compared with the shop's log: the order API, and the simulated gateway's ledger."""

from analytics.reconciling import LiveApi, LiveBooks, Outside, Row
from services.analytics.expected import expected_orders
from services.analytics.ledger import accounts, ledger_findings
from services.analytics.orders_api import FIELDS, OrdersApi
from services.order import service as order_service
from services.order.events import OrderSubmitted


def _is_final(order: Row) -> bool:
    return order["ended_at"] is not None


def _seen(field: str, order: Row) -> object:
    """Return the compared value: while an order is open, only whether there is a reason against it.

    Which of several is the first depends on the order in which they were consumed, and is decided at the end.
    """
    value = order[field]
    return value is not None if field == "reason" and not _is_final(order) else value


def _shown(order: Row) -> str:
    return f"{order['status']}, {order['amount_cents']} {order['currency']}"


OUTSIDE = Outside(
    expected_orders,
    api=LiveApi(
        table="orders",
        service=order_service.name,
        request=OrderSubmitted,
        fields=FIELDS,
        connect=OrdersApi,
        is_final=_is_final,
        seen=_seen,
        shown=_shown,
    ),
    ledger=LiveBooks(accounts, ledger_findings),
)
