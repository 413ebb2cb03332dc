"""The shop's outside world: a simulated gateway and carrier, whose ledger lies beside the log."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from eventlib.errors import WiringError
from services.simulation import CarrierFaults, GatewayFaults, Ledger, SimulatedCarrier, SimulatedGateway

_SETTINGS = {
    "decline": "SHOP_DECLINE",
    "undeliverable": "SHOP_UNDELIVERABLE",
    "gateway_timeout": "SHOP_GATEWAY_TIMEOUT",
}
_SEED = "SHOP_SEED"


@dataclass(frozen=True, kw_only=True)
class Outside:
    """How the outside world behaves: rates from 0 to 1, and the seed that says which orders they hit.

    `decline` is the share of orders that the gateway refuses, `undeliverable` the share that the carrier will not
    bring, `gateway_timeout` the share of calls that the gateway leaves unanswered: half of them have acted.
    """

    decline: float = 0.0
    undeliverable: float = 0.0
    gateway_timeout: float = 0.0
    seed: int = 0

    @asynccontextmanager
    async def open(self, log_url: str) -> AsyncIterator[Mapping[str, object]]:
        """Give the ports `gateway` and `carrier` to the services of a log."""
        path = ledger_path(log_url)
        if path != Path(":memory:"):
            path.parent.mkdir(parents=True, exist_ok=True)
        unanswered = self.gateway_timeout / 2
        with Ledger(path) as ledger:
            faults = GatewayFaults(decline=self.decline, timeout=unanswered, lost=unanswered)
            yield {
                "gateway": SimulatedGateway(ledger, faults, seed=self.seed),
                "carrier": SimulatedCarrier(ledger, CarrierFaults(undeliverable=self.undeliverable), seed=self.seed),
            }


def open_outside(log_url: str) -> AbstractAsyncContextManager[Mapping[str, object]]:
    """Give a log's services their outside world, as the environment has it: SHOP_DECLINE and the like, SHOP_SEED.

    Raises: WiringError for a setting that is no rate.
    """
    rates = {name: _rate(variable) for name, variable in _SETTINGS.items()}
    try:
        seed = int(os.environ.get(_SEED, "0"))
    except ValueError as error:
        raise WiringError(f"{_SEED}={os.environ[_SEED]!r}: expected a whole number") from error
    return Outside(**rates, seed=seed).open(log_url)


def ledger_path(log_url: str) -> Path:
    """Return the file of the ledger that belongs to a log: beside an SQLite log's own, in `var` for a log elsewhere."""
    scheme, _, place = log_url.partition("://")
    match scheme:
        case "sqlite":
            return Path(f"{place.removeprefix('/')}.outside.db")
        case "memory":
            return Path(":memory:")
        case _:
            name = "".join(letter if letter.isalnum() else "-" for letter in place)
            return Path("var") / f"{name}.outside.db"


def _rate(variable: str) -> float:
    text = os.environ.get(variable, "0")
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if not 0 <= rate <= 1:
        raise WiringError(f"{variable}={text!r}: expected a number from 0 to 1")
    return rate
