"""Runs effects outside of transactions: bounded, retried, timed, patient, and reporting each answer once."""

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tenacity import AsyncRetrying, retry_if_not_exception_type, stop_after_attempt, stop_never
from tenacity.wait import wait_exponential_jitter

from eventlib.effect import Asking, Effect
from eventlib.errors import ContractError, Terminal
from eventlib.event import Event
from eventlib.eventlog import EventLog
from eventlib.log.port import Record
from eventlib.runtime.breaker import Breaker
from eventlib.runtime.transaction import Answer
from eventlib.service import Service
from eventlib.signatures import name_of

_log = logging.getLogger(__name__)


class EffectRunner:
    """Runs the pending effects of one task.

    Guarantee: each request runs at least once, under its id as idempotency key, until it is answered or parked;
    `answered` is called once for each while this runner lives. Cancelling forgets nothing: the request stays pending
    on the changelog. While a port's circuit is open its requests wait, and that is not an attempt.
    """

    def __init__(
        self,
        service: Service,
        log: EventLog,
        ports: Mapping[str, object],
        breakers: Mapping[str | None, Breaker],
        slots: asyncio.Semaphore,
        answered: Callable[[Answer], None],
    ) -> None:
        self._effects: dict[str, Effect] = {
            request.__name__: effect for decider in service.deciders for request, effect in decider.effects.items()
        }
        self._log = log
        self._ports = ports
        self._breakers = breakers
        self._slots = slots
        self._answered = answered
        self._running: dict[str, asyncio.Task[None]] = {}
        self._out = set[str]()

    def __len__(self) -> int:
        """Count the effects that run or wait for their next attempt."""
        return len(self._running)

    def start(self, request: Record, event: Event | None) -> None:
        """Run a pending request's effect; `event` is what its record holds, where that is at hand.

        A request that runs already is left alone.
        """
        if request.event_id not in self._running:
            running = asyncio.get_running_loop().create_task(self._run(request, event))
            self._running[request.event_id] = running
            running.add_done_callback(lambda _: self._running.pop(request.event_id, None))

    async def stop(self, grace_s: float) -> None:
        """Let attempts that are out come back for `grace_s` seconds, then cancel what is left."""
        running = list(self._running.values())
        out = [self._running[request_id] for request_id in self._out]
        if out:
            await asyncio.wait(out, timeout=grace_s)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _run(self, request: Record, event: Event | None) -> None:
        effect = self._effects[request.type or ""]
        try:
            event = event or await self._log.decode_now(request)
            answer = await self._answer(effect, event, request)
        except Exception as error:  # noqa: BLE001  an effect that cannot go on is parked, alone, with its reason
            reason = f"{type(error).__name__}: {error}"
            _log.warning("effect for %s %s is parked: %s", request.type, request.event_id, reason)
            self._answered(Answer(request.event_id, None, reason))
        else:
            self._answered(Answer(request.event_id, answer))

    async def _answer(self, effect: Effect, event: Any, request: Record) -> Event:
        try:
            return await self._persist(effect.ask, event, request)
        except Terminal:
            raise
        except Exception:
            if effect.otherwise is None:
                raise
            if isinstance(effect.otherwise, Asking):
                return await self._persist(effect.otherwise, event, request)
            return effect.otherwise(event)

    async def _persist(self, ask: Asking, event: Any, request: Record) -> Event:
        """Ask until there is an answer or the retries are used up; only then the last error is raised."""
        try:
            # Nearly every effect ends here, so it does not pay for a retry policy.
            return await self._attempt(ask, event, request)
        except Terminal:
            raise
        except Exception as error:
            if ask.retry.attempts == 1:
                raise
            _log.debug("%s %s failed at first: %s", request.type, request.event_id, error)
        retry = ask.retry
        await asyncio.sleep(retry.first_pause_s + random.uniform(0, retry.jitter_s))  # noqa: S311  spreads load, hides nothing
        again = AsyncRetrying(
            stop=stop_never if retry.attempts is None else stop_after_attempt(retry.attempts - 1),
            wait=wait_exponential_jitter(
                multiplier=2 * retry.first_pause_s, max=retry.longest_pause_s, jitter=retry.jitter_s
            ),
            retry=retry_if_not_exception_type((Terminal, asyncio.CancelledError)),
            reraise=True,
        )
        return await again(self._attempt, ask, event, request)

    async def _attempt(self, ask: Asking, event: Any, request: Record) -> Event:
        arguments: list[Any] = [event]
        if ask.port is not None:
            arguments.append(self._ports[ask.port])
        if ask.wants_meta:
            arguments.append(request.meta())
        breaker = self._breakers[ask.port]
        while True:
            async with self._slots:
                turn = breaker.begin()
                if turn is not None:
                    self._out.add(request.event_id)
                    try:
                        return await _call(ask, arguments, breaker, turn)
                    finally:
                        self._out.discard(request.event_id)
            await breaker.wait()


async def _call(ask: Asking, arguments: list[Any], breaker: Breaker, turn: int) -> Event:
    """Call the outside once, and tell the breaker whether it was there: also an error for good is an answer."""
    try:
        async with asyncio.timeout(ask.timeout_s):
            answer = await ask.call(*arguments)
    except Terminal:
        breaker.worked(turn)
        raise
    except Exception as error:
        breaker.failed(turn, error)
        raise
    except BaseException:
        breaker.abandoned(turn)
        raise
    breaker.worked(turn)
    if type(answer) not in ask.answers:
        expected = " | ".join(each.__name__ for each in ask.answers)
        raise ContractError(f"effect {name_of(ask.call)} answered {answer!r}, which is not {expected}")
    return answer


def missing_ports(services: Iterable[Service], ports: Mapping[str, object]) -> dict[str, list[str]]:
    """Return the ports that effects need and nobody gave, with the services that need them."""
    missing: dict[str, list[str]] = {}
    for service in services:
        for port in sorted(service.ports - set(ports)):
            missing.setdefault(port, []).append(service.name)
    return missing
