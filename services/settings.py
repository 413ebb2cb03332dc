"""The shop's settings: SHOP_… variables override the defaults, the command line overrides both."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AnyHttpUrl, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from eventlib import RuntimeConfig, WiringError
from eventlib.config import SettingsError, no_userinfo, read_settings
from eventlib.http import ApiConfig
from eventlib.webhooks import SecretsFile, SigningSecret
from services.simulation.faults import CarrierFaults, GatewayFaults, Rate

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Port = Annotated[int, Field(ge=0, le=65_535)]


class ShopSettings(BaseSettings):
    """The shop's settings; an empty variable counts as unset. Half of the gateway's unanswered calls take effect."""

    model_config = SettingsConfigDict(env_prefix="SHOP_", env_ignore_empty=True, frozen=True, extra="forbid")

    gateway_url: Annotated[AnyHttpUrl | None, no_userinfo("set SHOP_GATEWAY_USER and SHOP_GATEWAY_PASSWORD")] = Field(
        default=None, description="where the payment gateway answers; unset: it is simulated in the process"
    )
    gateway_user: str | None = Field(default=None, description="user name of this shop (Basic authentication)")
    gateway_password: SecretStr | None = Field(default=None, description="the password of that user")
    gateway_secrets: SecretStr | None = Field(
        default=None,
        description="the secret of its signed callbacks (Standard Webhooks); while it is replaced two, the newest first, "
        "with a comma between; unset: no callbacks are taken",
    )
    gateway_secrets_file: Path | None = Field(
        default=None, description="a file of them instead, one in a line, the newest first: read again when it changes"
    )
    carrier_secrets: SecretStr | None = Field(default=None, description="the same for the carrier's callbacks")
    carrier_secrets_file: Path | None = Field(default=None, description="the same for the carrier's callbacks")
    carrier_url: Annotated[AnyHttpUrl | None, no_userinfo("set SHOP_CARRIER_USER and SHOP_CARRIER_PASSWORD")] = Field(
        default=None, description="where the carrier answers; unset: it is simulated in the process"
    )
    carrier_user: str | None = Field(default=None, description="user name of this shop (Basic authentication)")
    carrier_password: SecretStr | None = Field(default=None, description="the password of that user")
    connect_timeout_s: Seconds = Field(default=2.0, description="how long they may take to connect (seconds)")
    read_timeout_s: Seconds = Field(default=5.0, description="how long they may take to answer (seconds)")
    connections: int = Field(
        default=RuntimeConfig().concurrent_effects, ge=1, description="the most connections to each of them"
    )
    decline: Rate = Field(
        default=0.0, description="the share of orders whose payment the simulated gateway refuses, 0 to 1"
    )
    undeliverable: Rate = Field(default=0.0, description="the share of orders the simulated carrier refuses, 0 to 1")
    gateway_timeout: Rate = Field(
        default=0.0, description="the share of calls that the gateway leaves unanswered, 0 to 1"
    )
    seed: int = Field(default=0, description="selects the orders that these rates apply to")
    simulators_port: Port = Field(default=8090, description="where the simulators' server listens")
    simulators_ledger: Path = Field(default=Path("var/simulators.db"), description="the ledger file of that server")
    later: Rate = Field(
        default=0.0, description="the share of charges that this server accepts at first, and reports later, 0 to 1"
    )
    confirm_s: Seconds = Field(default=1.0, description="how long until it reports them (seconds)")
    callback_url: Annotated[AnyHttpUrl | None, no_userinfo("its reports are signed with SHOP_GATEWAY_SECRETS")] = Field(
        default=None, description="where it reports them, the API's `/callbacks/gateway`"
    )
    parcels_later: Rate = Field(
        default=0.0, description="the share of parcels that this server agrees to fetch, and fetches later, 0 to 1"
    )
    collect_s: Seconds = Field(default=1.0, description="how long until it has fetched them (seconds)")
    carrier_callback_url: Annotated[
        AnyHttpUrl | None, no_userinfo("its reports are signed with SHOP_CARRIER_SECRETS")
    ] = Field(default=None, description="where it reports that, the API's `/callbacks/carrier`")
    backlog: int = Field(
        default=ApiConfig.backlog,
        ge=1,
        description="how many lines of orders may wait for the order service before HTTP refuses more (503)",
    )
    work_rate: float = Field(
        default=ApiConfig.work_rate,
        ge=0,
        allow_inf_nan=False,
        description="lines of orders, or reads, that a caller may send a second; 0: any",
    )
    work_burst: int = Field(default=ApiConfig.work_burst, ge=1, description="how many of them at once")
    streams: int = Field(
        default=ApiConfig.streams_per_caller, ge=1, description="the most event streams that a caller has open"
    )
    decision_s: Seconds = Field(
        default=ApiConfig.decision_s, description="how long an HTTP answer waits for its decision (seconds)"
    )
    index_age_s: Seconds = Field(
        default=ApiConfig.index_age_s,
        description="how old an index may be before `/readyz` and lists are refused (503) (seconds)",
    )
    idempotency_s: Seconds | None = Field(
        default=ApiConfig.idempotency_s,
        description="how long an Idempotency-Key counts (seconds); unset: as long as its order is on the log",
    )
    hang_s: Seconds = Field(default=30.0, description="how long the simulators keep an unanswered call open (seconds)")

    def signing_secrets(self, whose: Literal["gateway", "carrier"]) -> Sequence[SigningSecret] | SecretsFile:
        """Return the secrets of callbacks, the newest first; empty when none are taken. Raises: SettingsError."""
        name = f"SHOP_{whose.upper()}_SECRETS"
        text: SecretStr | None = getattr(self, f"{whose}_secrets")
        file: Path | None = getattr(self, f"{whose}_secrets_file")
        if file is not None:
            if text is not None:
                raise SettingsError(f"{name}: {name}_FILE is set, too: set one of the two")
            try:
                return SecretsFile(file)
            except WiringError as error:
                raise SettingsError(f"{name}_FILE: {error}") from error
        given = text.get_secret_value() if text else ""
        try:
            found = [SigningSecret(each.strip()) for each in given.split(",") if each.strip()]
            for each in found:
                each.standard_key()
        except WiringError as error:
            raise SettingsError(f"{name}: {error}") from error
        return found

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
    """Return the demo's settings: some faults, unless the environment sets others."""
    settings = shop_settings(seed=seed)
    demo = {"decline": 0.05, "undeliverable": 0.01, "seed": 1}
    return settings.model_copy(update={name: demo[name] for name in demo.keys() - settings.model_fields_set})


def refuse_vain_faults(
    settings: ShopSettings, *, gateway: Sequence[float | None], carrier: Sequence[float | None]
) -> None:
    """Reject faults on the command line for ports that are not simulated. Raises: SettingsError."""
    for name, url, faults in (("gateway", settings.gateway_url, gateway), ("carrier", settings.carrier_url, carrier)):
        if url is not None and any(fault is not None for fault in faults):
            raise SettingsError(f"the {name} is at {url} (SHOP_{name.upper()}_URL), and its faults are set there")
