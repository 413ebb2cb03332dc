"""The simulators' request bodies, and their configurable faults."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from services.fields import AmountCents, Country, Currency, GatewayKey, OrderId
from services.simulation.faults import CarrierFaults, GatewayFaults

Rate = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True, kw_only=True)
class HttpFaults:
    """Faults of connections, as rates from 0 to 1, drawn anew for each attempt.

    `error`: 503, nothing done. `throttle`: 429, nothing done. `garbage`: done, with an answer in an unknown format.
    `late`: done, and answered after `hang_s`. `down`: every connection is cut at once. `hang_s` is how long a call
    without an answer stays open (seconds; None: as at the server's start).
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    error: Rate = 0.0
    throttle: Rate = 0.0
    garbage: Rate = 0.0
    late: Rate = 0.0
    down: bool = False
    hang_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


class AllFaults(BaseModel):
    """Every fault of the external systems; omitted ones do not occur."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    gateway: GatewayFaults = GatewayFaults()
    carrier: CarrierFaults = CarrierFaults()
    http: HttpFaults = HttpFaults()


class Charge(BaseModel):
    """An order's money."""

    order_id: OrderId
    amount_cents: AmountCents
    currency: Currency


class Void(BaseModel):
    """A charge to undo, whether it was made or not."""

    charge_key: GatewayKey


class Refund(BaseModel):
    """Money of a charge that was made."""

    charge_key: GatewayKey
    amount_cents: AmountCents
    currency: Currency


class Parcel(BaseModel):
    """An order to fetch."""

    order_id: OrderId
    country: Country


class Recall(BaseModel):
    """A booking to cancel, whether it was made or not."""

    parcel_key: GatewayKey


class Problem(BaseModel):
    """Why a call was refused."""

    detail: str
