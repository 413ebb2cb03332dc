"""The example shop: four services that communicate only through events."""

from collections.abc import Awaitable, Callable

from eventlib import Choreography, EventLog, SagaStates
from services import dispatch, order, payment, stock
from services.invariants import INVARIANTS
from services.order.decider import orders, standing
from services.order.events import LargeOrderSeen, ProductDelisted, ProductListed
from services.outside import open_outside
from services.payment.events import PaymentsDegraded
from services.stock.events import ShelfRunningLow


def make_api(log: EventLog) -> Callable[..., Awaitable[None]]:
    """Return the order API on a log. Raises: SettingsError."""
    from eventlib.http import ApiConfig
    from services.order.api import create_app
    from services.settings import shop_settings

    settings = shop_settings()
    config = ApiConfig(
        backlog=settings.backlog,
        decision_s=settings.decision_s,
        index_age_s=settings.index_age_s,
        idempotency_s=settings.idempotency_s,
        work_rate=settings.work_rate,
        work_burst=settings.work_burst,
        streams_per_caller=settings.streams,
    )
    secrets, carrier_secrets = settings.signing_secrets("gateway"), settings.signing_secrets("carrier")
    return create_app(log, config, secrets=secrets, carrier_secrets=carrier_secrets)


shop = Choreography(
    "shop",
    [order.service, stock.service, payment.service, dispatch.service],
    facts=[ProductListed, ProductDelisted, LargeOrderSeen, PaymentsDegraded, ShelfRunningLow],
    ports=open_outside,
    http=make_api,
    invariants=INVARIANTS,
    sagas=SagaStates(orders, standing),
    settings=["services.settings:ShopSettings"],
    analytics="services.analytics",
)
