"""What of the shop is set from outside: variables SHOP_…; the command line wins over them, and they over the defaults.

| variable | means |
|---|---|
| SHOP_GATEWAY_URL, SHOP_CARRIER_URL | where the gateway and the carrier answer; unset: the embedded simulation |
| SHOP_CONNECT_TIMEOUT_S, SHOP_READ_TIMEOUT_S | how long they may take to connect, and to answer (seconds) |
| SHOP_CONNECTIONS | the most connections to each of them; by default as many as a service has attempts out |
| SHOP_DECLINE, SHOP_UNDELIVERABLE, SHOP_GATEWAY_TIMEOUT | faults of the simulation: rates from 0 to 1 |
| SHOP_SEED | says which orders the rates hit |
| SHOP_SIMULATORS_PORT, SHOP_SIMULATORS_LEDGER | where the simulators' server answers, and what it keeps its ledger in |
| SHOP_BACKLOG | how many requests may wait for the order service before HTTP refuses new ones (503) |
| SHOP_DECISION_S | how long an HTTP answer waits for its decision (seconds) |
| SHOP_HANG_S | how long that server leaves a call open that it does not answer (seconds) |
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import AnyHttpUrl, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from eventlib.runtime import RuntimeConfig
from eventlib.variables import SettingsError, read_settings
from services.order.http.config import ApiConfig
from services.simulation.faults import CarrierFaults, GatewayFaults

Rate = Annotated[float, Field(ge=0, le=1)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Port = Annotated[int, Field(ge=0, le=65_535)]


class ShopSettings(BaseSettings):
    """The shop's settings; an empty variable counts as none.

    `decline` is the share of orders that the simulated gateway refuses, `undeliverable` the share that the simulated
    carrier will not bring, `gateway_timeout` the share of calls that the gateway leaves unanswered: half have acted.
    """

    model_config = SettingsConfigDict(env_prefix="SHOP_", env_ignore_empty=True, frozen=True, extra="forbid")

    gateway_url: AnyHttpUrl | None = None
    carrier_url: AnyHttpUrl | None = None
    connect_timeout_s: Seconds = 2.0
    read_timeout_s: Seconds = 5.0
    connections: Annotated[int, Field(ge=1)] = RuntimeConfig().concurrent_effects
    decline: Rate = 0.0
    undeliverable: Rate = 0.0
    gateway_timeout: Rate = 0.0
    seed: int = 0
    simulators_port: Port = 8090
    simulators_ledger: Path = Path("var/simulators.db")
    backlog: Annotated[int, Field(ge=1)] = ApiConfig.backlog
    decision_s: Seconds = ApiConfig.decision_s
    hang_s: Seconds = 30.0

    @property
    def gateway_faults(self) -> GatewayFaults:
        """Return how the simulated gateway fails."""
        unanswered = self.gateway_timeout / 2
        return GatewayFaults(decline=self.decline, timeout=unanswered, lost=unanswered)

    @property
    def carrier_faults(self) -> CarrierFaults:
        """Return how the simulated carrier fails."""
        return CarrierFaults(undeliverable=self.undeliverable)


def shop_settings(**given: Any) -> ShopSettings:
    """Return the shop's settings; what is given, and not None, wins over the environment. Raises: SettingsError."""
    return read_settings(ShopSettings, given)


def demo_settings(seed: int | None) -> ShopSettings:
    """Return the settings of a demonstration: something goes wrong in it, unless the environment says otherwise."""
    settings = shop_settings(seed=seed)
    demo = {"decline": 0.05, "undeliverable": 0.01, "seed": 1}
    return settings.model_copy(update={name: demo[name] for name in demo.keys() - settings.model_fields_set})


def refuse_vain_faults(
    settings: ShopSettings, *, gateway: Sequence[float | None], carrier: Sequence[float | None]
) -> None:
    """Refuse faults asked for on the command line when there is no simulation to have them. Raises: SettingsError."""
    for name, url, faults in (("gateway", settings.gateway_url, gateway), ("carrier", settings.carrier_url, carrier)):
        if url is not None and any(fault is not None for fault in faults):
            raise SettingsError(f"the {name} is at {url} (SHOP_{name.upper()}_URL), and its faults are set there")
