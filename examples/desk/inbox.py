"""The desk's inbox: what it takes, changes and answers is one transaction of Django's."""

from eventlib.outbox import DjangoOutbox
from eventlib.sinks import DjangoInbox
from examples.desk.models import Customer
from services import shop
from services.order.events import CancelSubmitted, OrderPlaced

inbox, outbox = DjangoInbox("desk", shop, from_now=True), DjangoOutbox(shop, [CancelSubmitted])


@inbox.on
def placed(order: OrderPlaced) -> None:
    customer = Customer.objects.select_for_update().filter(id=order.customer_id or "").first()
    if customer is not None and customer.spent_cents + order.amount_cents > customer.limit_cents:
        outbox.put(CancelSubmitted(order_id=order.order_id, reason="credit"))
    elif customer is not None:
        customer.spent_cents += order.amount_cents
        customer.save()
