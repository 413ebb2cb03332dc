"""The shop that proves the toolkit: four services that speak to each other only through events."""

from eventlib.choreography import Choreography
from services import dispatch, order, payment, stock
from services.order.events import ProductDelisted, ProductListed
from services.outside import open_outside

shop = Choreography(
    "shop",
    [order.service, stock.service, payment.service, dispatch.service],
    facts=[ProductListed, ProductDelisted],
    ports=open_outside,
)
