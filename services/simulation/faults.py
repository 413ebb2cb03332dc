"""The faults between a service and an external system, decided by hashing: the same seed, the same faults."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields
from hashlib import blake2b
from typing import Annotated, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from eventlib import OutcomeUnknown

T = TypeVar("T")
Rate = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True, kw_only=True)
class Faults:
    """How often a connection fails, as rates from 0 to 1, and its mean delay in seconds.

    `timeout`: a call never arrives. `lost`: it is executed, but its answer is lost. `duplicate`: it arrives
    twice. These are drawn anew for each attempt. `silent`: no attempt to charge or book this order is ever answered,
    although half of them are executed; the question that follows, void or recall, is answered.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    timeout: float = 0.0
    lost: float = 0.0
    duplicate: float = 0.0
    silent: float = 0.0
    delay_s: float = 0.0

    def __post_init__(self) -> None:
        """Refuse an invalid rate."""
        for each in fields(self):
            value = getattr(self, each.name)
            if value < 0 or (value > 1 and each.name != "delay_s"):
                raise ValueError(f"{type(self).__name__}({each.name}={value}): expected a number from 0 to 1")


@dataclass(frozen=True, kw_only=True)
class GatewayFaults(Faults):
    """A gateway's faults; `decline` is the share of orders whose charge is refused.

    `later` is the share of orders whose charge is only accepted: a callback reports what came of it.
    """

    decline: float = 0.0
    later: float = 0.0


@dataclass(frozen=True, kw_only=True)
class CarrierFaults(Faults):
    """A carrier's faults; `undeliverable` is the share of orders that it refuses.

    `departed` is the share of booked parcels that are on their way already when they are recalled. `later` is the share of
    orders whose parcel it agrees to fetch, and fetches later: a callback reports what came of it.
    """

    undeliverable: float = 0.0
    departed: float = 0.5
    later: float = 0.0


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


class NeverArrived(OutcomeUnknown):
    """The call did not arrive, or is never answered."""


class AnswerLost(OutcomeUnknown):
    """The call was executed, and its answer was lost."""


class Chance:
    """Seeded, stateless chance: the same seed and words give the same outcome, in any order, in any process.

    `whose` makes two external systems independent of each other.
    """

    def __init__(self, seed: int, whose: str) -> None:
        self._seed = seed
        self._whose = whose

    def of(self, rate: float, *words: object) -> bool:
        """Return whether something with this rate (0 to 1) happens."""
        return rate > 0.0 and self.fraction(*words) < rate

    def fraction(self, *words: object) -> float:
        """Return a number from 0 to below 1."""
        text = "\x1f".join(map(str, (self._seed, self._whose, *words)))
        return int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) / 2**64


class Connection:
    """The unreliable connection to an external system."""

    def __init__(self, faults: Faults, chance: Chance) -> None:
        self._faults = faults
        self._chance = chance
        self._failed: dict[str, int] = {}

    async def call(self, key: str, act: Callable[[], Awaitable[T]]) -> T:
        """Make one call and return its answer; `key` names the call, the same for all its attempts.

        Raises: OutcomeUnknown when the call or its answer is lost.
        """
        attempt = self._failed.get(key, 0) + 1
        await self._delay(key, attempt)
        if self._chance.of(self._faults.timeout, "timeout", key, attempt):
            self._failed[key] = attempt
            raise NeverArrived(f"{key}: no connection, attempt {attempt}")
        answer = await act()
        if self._chance.of(self._faults.duplicate, "duplicate", key, attempt):
            answer = await act()
        if self._chance.of(self._faults.lost, "lost", key, attempt):
            self._failed[key] = attempt
            raise AnswerLost(f"{key}: the answer was lost, attempt {attempt}")
        self._failed.pop(key, None)
        return answer

    async def refuse_if_silent(self, key: str, order_id: str, act: Callable[[], Awaitable[object]]) -> None:
        """Leave a silent order's call without an answer; half of them are executed all the same. Raises: OutcomeUnknown."""
        if not self._chance.of(self._faults.silent, "silent", order_id):
            return
        if self._chance.of(0.5, "silent but acting", order_id):
            await act()
        await self._delay(key, 1)
        raise NeverArrived(f"{key}: no answer")

    async def _delay(self, key: str, attempt: int) -> None:
        if self._faults.delay_s > 0:
            await asyncio.sleep(2 * self._faults.delay_s * self._chance.fraction("delay", key, attempt))
