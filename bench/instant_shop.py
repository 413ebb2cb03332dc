"""The shop with a gateway and a carrier that answer at once: `eventlib run --app bench.instant_shop:shop`."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from bench.sagas import InstantCarrier, InstantGateway
from eventlib import Choreography
from services import make_api
from services import shop as real


@asynccontextmanager
async def at_once(_log_url: str) -> AsyncIterator[Mapping[str, object]]:
    """Give the ports."""
    yield {"gateway": InstantGateway(), "carrier": InstantCarrier()}


shop = Choreography("shop", real.services, facts=real.facts, ports=at_once, http=make_api)
