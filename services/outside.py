"""The shop's external systems: gateway and carrier over HTTP, or simulated with a ledger beside the log."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import SecretStr

    from services.settings import ShopSettings


def open_outside(log_url: str) -> AbstractAsyncContextManager[Mapping[str, object]]:
    """Open the ports of a log's services as the environment configures them. Raises: SettingsError."""
    from services.settings import shop_settings  # pydantic-settings only when it is asked

    return open_ports(shop_settings(), log_url)


@asynccontextmanager
async def open_ports(settings: "ShopSettings", log_url: str) -> AsyncIterator[Mapping[str, object]]:
    """Open the ports `gateway` and `carrier` for the services of a log."""
    async with AsyncExitStack() as stack:
        ports = dict[str, object]()
        # Each port's imports only if it is used: the HTTP client alone is a quarter of the shop's.
        if settings.gateway_url is not None:
            from services.http_calls import open_calls
            from services.payment.http_gateway import HttpGateway

            user = _user(settings.gateway_user, settings.gateway_password)
            calls = await stack.enter_async_context(open_calls(settings.gateway_url, settings, user))
            ports["gateway"] = HttpGateway(calls)
        if settings.carrier_url is not None:
            from services.dispatch.http_carrier import HttpCarrier
            from services.http_calls import open_calls

            user = _user(settings.carrier_user, settings.carrier_password)
            calls = await stack.enter_async_context(open_calls(settings.carrier_url, settings, user))
            ports["carrier"] = HttpCarrier(calls)
        if len(ports) < 2:  # noqa: PLR2004  gateway and carrier
            from services.simulation.ledger import open_ledger
            from services.simulation.systems import SimulatedCarrier, SimulatedGateway

            ledger = stack.enter_context(open_ledger(ledger_path(log_url)))
            ports.setdefault("gateway", SimulatedGateway(ledger, settings.gateway_faults, seed=settings.seed))
            ports.setdefault("carrier", SimulatedCarrier(ledger, settings.carrier_faults, seed=settings.seed))
        yield ports


def _user(name: str | None, password: "SecretStr | None") -> tuple[str, str] | None:
    return None if name is None else (name, password.get_secret_value() if password else "")


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
