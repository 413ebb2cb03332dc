"""The shop with a gateway and a carrier that answer at once: `eventlib run --app tests.performance.instant_shop:shop`."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from eventlib import Choreography
from services import make_api
from services import shop as real
from tests.performance.sagas import InstantCarrier, InstantGateway


@asynccontextmanager
async def at_once(_log_url: str) -> AsyncIterator[Mapping[str, object]]:
    """Give the ports."""
    yield {"gateway": InstantGateway(), "carrier": InstantCarrier()}


shop = Choreography("shop", real.services, facts=real.facts, ports=at_once, http=make_api)
