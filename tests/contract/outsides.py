"""The outside world in two forms for one suite: simulated in this process, and the same behind a real socket."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import AnyHttpUrl

from eventlib.http import HttpLimits, server_options
from services.dispatch.http_carrier import HttpCarrier
from services.dispatch.ports import Carrier
from services.http_calls import open_calls
from services.payment.http_gateway import HttpGateway
from services.payment.ports import Gateway
from services.settings import ShopSettings
from services.simulation.faults import AllFaults
from services.simulation.ledger import Ledger
from services.simulation.server import make_app
from services.simulation.simulators import Line, Simulators
from services.simulation.systems import SimulatedCarrier, SimulatedGateway
from tests.serving import serving_app

SEED = 3


@dataclass(frozen=True)
class Outside:
    """A gateway and a carrier, and the ledger that they keep."""

    gateway: Gateway
    carrier: Carrier
    ledger: Path


Opening = Callable[..., AbstractAsyncContextManager[Outside]]


@asynccontextmanager
async def simulated(path: Path, **faults: Any) -> AsyncIterator[Outside]:
    """Open the simulation itself."""
    wanted = AllFaults(**faults)
    with Ledger(path) as ledger:
        gateway = SimulatedGateway(ledger, wanted.gateway, seed=SEED)
        yield Outside(gateway, SimulatedCarrier(ledger, wanted.carrier, seed=SEED), path)


@asynccontextmanager
async def over_http(path: Path, **faults: Any) -> AsyncIterator[Outside]:
    """Open the simulators' server on a free port, and its clients."""
    answers = all(fault in _ANSWERED for those in faults.values() for fault in those)
    patience_s = 60 if answers else 1  # a busy machine is slow, and no answer is waited for in vain
    settings = ShopSettings(seed=SEED, read_timeout_s=patience_s, connect_timeout_s=60, hang_s=5)
    async with AsyncExitStack() as stack:
        simulators = Simulators(stack.enter_context(Ledger(path)), settings)
        simulators.set_faults(AllFaults(**faults))
        url = await stack.enter_async_context(serving(make_app(simulators)))
        calls = [await stack.enter_async_context(open_calls(AnyHttpUrl(url + each), settings)) for each in _PATHS]
        yield Outside(HttpGateway(calls[0]), HttpCarrier(calls[1]), path)


_ANSWERED = ("decline", "duplicate", "undeliverable")
"""The faults that are answers."""

_PATHS = ("/gateway", "/carrier")


def serving(app: Callable[..., Awaitable[None]]) -> AbstractAsyncContextManager[str]:
    """Serve an application of the outside world, and give its address."""
    return serving_app(app, **server_options(HttpLimits(), Line))
