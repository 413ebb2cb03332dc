"""How much work each caller may ask for: a token bucket for each caller and route, filled at a steady rate.

Source: draft-ietf-httpapi-ratelimit-headers-10 (`RateLimit-Policy`, `RateLimit`); the generic cell rate algorithm (GCRA).
"""

from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from math import ceil
from time import monotonic
from typing import Any

from fastapi import Request, Response
from starlette.types import Scope

from eventlib.ground.body_limit import METER, StrictRoute
from eventlib.http.problems import Refusal

CALLER = "eventlib.caller"
"""The member of an ASGI scope that names who was authenticated."""
MOST_BUCKETS = 10_000


def caller_of(scope: Scope) -> str:
    """Return who sent a request: the name that authentication found, else the client's address."""
    named: str | None = scope.get(CALLER)
    client = scope.get("client")
    return named or (client[0] if client else "")


class RateLimits:
    """Buckets of `burst` units of work for each caller and route, filled with `rate` units a second.

    Work larger than a full bucket is done when the bucket is full, and the caller then waits until it is paid for.
    Guarantee: memory is bounded; with too many callers, the bucket that was used least recently is forgotten.
    """

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._full_at = OrderedDict[tuple[str, str], float]()
        self.policy = f'"work";q={burst};w={max(1, ceil(burst / rate))}'

    def take(self, caller: str, route: str, work: float, taken: float = 0) -> float:
        """Take a request's work from a bucket; return 0, or the seconds after which there is enough, and take nothing.

        `taken` of that work was taken before.
        """
        key, now = (caller, route), self._clock()
        full_at = max(now, self._full_at.get(key, now))
        wait_s = full_at - now - (self._burst - min(work, self._burst) + taken) / self._rate
        if wait_s > 1e-9:  # noqa: PLR2004  what rounding leaves
            return wait_s
        self._full_at[key] = full_at + (work - taken) / self._rate
        self._full_at.move_to_end(key)
        if len(self._full_at) > MOST_BUCKETS:
            self._full_at.popitem(last=False)
        return 0

    def state(self, caller: str, route: str) -> str:
        """Return the header `RateLimit` of a bucket: what is left, and the seconds until it is full."""
        left_s = max(0.0, self._full_at.get((caller, route), 0) - self._clock())
        return f'"work";r={max(0, int(self._burst - left_s * self._rate))};t={ceil(left_s)}'


@dataclass(slots=True)
class Meter:
    """Takes the work of one request from its caller's bucket."""

    limits: RateLimits
    caller: str
    route: str
    taken: float = 0

    def charge(self, work: float) -> None:
        """Charge for what the request costs in all; what was charged before counts. Raises: Refusal (429)."""
        wait_s = self.limits.take(self.caller, self.route, max(work, self.taken), self.taken)
        if wait_s:
            detail = f"this caller has asked for too much work on {self.route}: come back in {ceil(wait_s)} s"
            raise Refusal(429, "rate-limited", detail, headers={**self.headers, "Retry-After": str(ceil(wait_s))})
        self.taken = max(self.taken, work)

    @property
    def headers(self) -> dict[str, str]:
        """The standard headers of an answer."""
        return {"RateLimit-Policy": self.limits.policy, "RateLimit": self.limits.state(self.caller, self.route)}


class MeteredRoute(StrictRoute):
    """A strict operation that costs its caller 1 before its body is read, where the app has `state.rate_limits`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """See `APIRoute`."""
        handle = super().get_route_handler()

        async def handle_metered(request: Request) -> Response:
            limits: RateLimits | None = getattr(request.app.state, "rate_limits", None)
            if limits is None:
                return await handle(request)
            meter = Meter(limits, caller_of(request.scope), f"{request.method} {self.path}")
            request.scope[METER] = meter
            meter.charge(1)
            response = await handle(request)
            response.headers.update(meter.headers)
            return response

        return handle_metered
