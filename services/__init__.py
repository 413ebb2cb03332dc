"""The shop that proves the toolkit: four services that speak to each other only through events."""

from collections.abc import Awaitable, Callable

from eventlib.choreography import Choreography
from eventlib.eventlog import EventLog
from eventlib.sagastates import SagaStates
from services import dispatch, order, payment, stock
from services.laws import LAWS
from services.order.decider import orders, standing
from services.order.events import ProductDelisted, ProductListed
from services.outside import open_outside
from services.settings import ShopSettings, shop_settings


def make_api(log: EventLog) -> Callable[..., Awaitable[None]]:
    """Return the order API on a log. Raises: SettingsError."""
    from services.order.api import create_app
    from services.order.http.config import ApiConfig

    settings = shop_settings()
    return create_app(log, ApiConfig(backlog=settings.backlog, decision_s=settings.decision_s))


shop = Choreography(
    "shop",
    [order.service, stock.service, payment.service, dispatch.service],
    facts=[ProductListed, ProductDelisted],
    ports=open_outside,
    http=make_api,
    laws=LAWS,
    sagas=SagaStates(orders, standing),
    settings=[ShopSettings],
)
