"""The simulated gateway and carrier behind a connection that fails: one durable ledger, and faults that change while they run."""

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any, ClassVar, cast

from fastapi import Request, Response
from fastapi.responses import JSONResponse

from eventlib.http import BoundedProtocol
from services.dispatch.http_carrier import BOOK, RECALL
from services.dispatch.ports import Planned
from services.payment.http_gateway import CHARGE, REFUND, VOID
from services.payment.ports import Accepted
from services.settings import ShopSettings
from services.simulation.callbacks import Reporting
from services.simulation.faults import AllFaults, AnswerLost, Chance, HttpFaults, NeverArrived
from services.simulation.ledger import Ledger, LedgerConflict
from services.simulation.systems import SimulatedCarrier, SimulatedGateway

Address = tuple[str, int]


class Line(BoundedProtocol):
    """One client's connection, which can be cut in the middle of a call; `Line.of` finds that of a request."""

    open: ClassVar[dict[Address, "Line"]] = {}

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._address: Address = ("", 0)
        self._gone = asyncio.Event()

    @classmethod
    def of(cls, request: Request) -> "Line":
        """Return the connection that a request came on."""
        client = request.client
        assert client is not None  # noqa: S101  it came over TCP
        return cls.open[client.host, client.port]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Register a connection."""
        super().connection_made(transport)
        self._address = cast("Address", transport.get_extra_info("peername")[:2])
        Line.open[self._address] = self

    def connection_lost(self, exc: Exception | None) -> None:
        """Unregister a connection."""
        super().connection_lost(exc)
        Line.open.pop(self._address, None)
        self._gone.set()

    def cut(self) -> None:
        """Close the connection at once, unsent data included."""
        self.transport.abort()

    async def hang(self, longest_s: float) -> None:
        """Wait until the client closes the connection, or the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(longest_s):
                await self._gone.wait()


_OUTCOMES = {kind: outcome for answers in (CHARGE, VOID, REFUND, BOOK, RECALL) for outcome, kind in answers.items()}
LATER = (Accepted, Planned)
"""The answers that are not an end: a callback reports that."""


class Simulators:
    """Both systems on one ledger; their faults can be changed while they run."""

    def __init__(self, ledger: Ledger, settings: ShopSettings) -> None:
        self._ledger = ledger
        self._settings = settings
        self._chance = Chance(settings.seed, "http")
        self._attempts = Counter[str]()
        self.reporting = Reporting(ledger, settings)
        gateway = replace(settings.gateway_faults, later=settings.later)
        carrier = replace(settings.carrier_faults, later=settings.parcels_later)
        self.set_faults(AllFaults(gateway=gateway, carrier=carrier, http=HttpFaults()))

    def set_faults(self, faults: AllFaults) -> None:
        """Replace the faults."""
        self.faults = faults
        self.gateway = SimulatedGateway(
            self._ledger, faults.gateway, seed=self._settings.seed, later_s=self._settings.confirm_s
        )
        self.carrier = SimulatedCarrier(
            self._ledger, faults.carrier, seed=self._settings.seed, later_s=self._settings.collect_s
        )

    async def answer(  # noqa: PLR0911  one return for each fault
        self, request: Request, key: str, act: Callable[[], Awaitable[Any]]
    ) -> Response:
        """Execute one call, and send its answer as the faults allow."""
        line, call = Line.of(request), f"{request.url.path} {key}"
        self._attempts[call] += 1
        if self.faults.http.down:
            return _cut(line)
        if self._hits("error", call):
            return Response(status_code=503)
        if self._hits("throttle", call):
            return Response(status_code=429, headers={"Retry-After": "1"})
        try:
            return await self._sent(await act(), line, call)
        except LedgerConflict as conflict:
            return JSONResponse({"detail": str(conflict)}, status_code=422)
        except sqlite3.Error:  # the ledger's disk is full or broken: what was not written was not done
            return Response(status_code=503, headers={"Retry-After": "1"})
        except AnswerLost:
            return _cut(line)
        except NeverArrived:
            await self._hang(line)
            return _cut(line)

    async def _sent(self, answer: Any, line: Line, call: str) -> Response:
        if self._hits("late", call):
            await self._hang(line)
        if self._hits("garbage", call):
            return Response("<h1>It works!</h1>", media_type="text/html")
        body = {"outcome": _OUTCOMES[type(answer)], **asdict(answer)}
        return JSONResponse(body, 202 if isinstance(answer, LATER) else 200)

    def _hits(self, fault: str, call: str) -> bool:
        return self._chance.of(getattr(self.faults.http, fault), fault, call, self._attempts[call])

    async def _hang(self, line: Line) -> None:
        await line.hang(self.faults.http.hang_s or self._settings.hang_s)


def _cut(line: Line) -> Response:
    line.cut()
    return Response(status_code=502)  # never sent
