"""Runs effects outside of transactions: bounded, retried, timed; each answer is reported."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Self

from eventlib.errors import EventlibError, is_final
from eventlib.eventlog import CALLER, SAGA
from eventlib.ground.ends import as_error
from eventlib.model.effect import Effect
from eventlib.model.event import Event
from eventlib.model.kept_error import KeptError
from eventlib.model.record import Record
from eventlib.model.service import Service
from eventlib.runtime.breaker import Breaker
from eventlib.runtime.context import RuntimeContext
from eventlib.runtime.effect_attempts import EffectAttempts
from eventlib.runtime.effect_queue import Ticket
from eventlib.runtime.instrumentation import Observer
from eventlib.runtime.plain_calls import PlainCall
from eventlib.runtime.transaction import Answer
from eventlib.runtime.turns import EffectTurns, Turn

_log = logging.getLogger(__name__)


class EffectRunner:
    """Runs the pending effects of one task.

    Guarantee: each request runs at least once, under its id as idempotency key, until it is answered or parked;
    `answered` is called once for each while this runner lives. Cancelling forgets nothing: the request stays pending
    on the changelog. While a port's circuit is open, or a limit is reached, its requests wait, and that is not an attempt.
    A request that `holds` names is paused: it has no further attempt, and is started again when it is resumed. A request that
    waits at a limit is held by its id only, in `waiting`; `find` returns it when its turn comes, or None when it is gone.
    One that `may_begin` refuses keeps its turn, and begins when it is started again.
    """

    def __init__(
        self,
        service: Service,
        context: RuntimeContext,
        turns: EffectTurns,
        answered: Callable[[Answer], None],
    ) -> None:
        self._service = service
        self._effects: dict[str, Effect] = {
            request.__name__: effect for decider in service.deciders for request, effect in decider.effects.items()
        }
        self._log = context.log
        self._ports = context.ports
        self._breakers = context.breakers
        self._observer = context.observer
        self._causes = context.causes
        self._slots = turns.slots
        self._lines = turns.lines
        self._answered = answered
        self.holds: Callable[[Record], bool] = lambda _request: False
        self.find: Callable[[str], Record | None] = lambda _request_id: None
        self.may_begin: Callable[[str], bool] = lambda _request_id: True
        self.waiting = dict[str, Ticket]()
        self._turns = dict[str, Turn]()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._out = set[str]()
        self._stops = False
        self._is_over = False

    def __len__(self) -> int:
        """Count the effects that run or wait for their next attempt."""
        return len(self._running)

    def is_out(self, request_id: str) -> bool:
        """Tell whether an attempt of an effect is under way."""
        return request_id in self._out

    def start(self, request: Record, event: Event | None) -> bool:
        """Run a pending request's effect; `event` is what its record holds, where that is at hand.

        A request that runs or waits already is left alone. False when it waits at a limit, or may not begin.
        """
        if request.event_id in self._running:
            return True
        line = self._lines.get(request.type or "") if self._lines else None
        if line is not None and request.event_id not in self._turns:
            if request.event_id not in self.waiting:
                key = self._key(request, event, line.queue.limit.key)
                now = asyncio.get_running_loop().time()
                ticket = self.waiting[request.event_id] = Ticket(request.event_id, request.type or "", key, self, now)
                line.wait(ticket)
            return False
        if not self.may_begin(request.event_id):
            return False
        self._begin(request, event)
        return True

    def go(self, ticket: Ticket) -> None:
        """Run an effect whose turn has come, unless it is paused or gone meanwhile."""
        del self.waiting[ticket.id]
        line, request = self._lines[ticket.kind], self.find(ticket.id)
        if request is None or self.holds(request):
            line.end(ticket, unused=True)
            return
        self._turns[ticket.id] = Turn(line, ticket, asyncio.get_running_loop().time())
        if self.may_begin(ticket.id):
            self._begin(request, None)

    def _key(self, request: Record, event: Event | None, field: str) -> str:
        """Return the key under which a request waits; one that cannot be read says so when its turn comes."""
        if not field:
            return request.subject or ""
        try:
            return str(getattr(event or self._log.decode(request), field))
        except (EventlibError, AttributeError):
            return ""

    def _begin(self, request: Record, event: Event | None) -> None:
        name = f"effect for {request.type} {request.event_id}"
        running = asyncio.get_running_loop().create_task(self._run(request, event), name=name)
        self._running[request.event_id] = running
        running.add_done_callback(lambda done: self._forget(request.event_id, done))

    def _forget(self, request_id: str, done: "asyncio.Task[None]") -> None:
        if self._running.get(request_id) is done:
            del self._running[request_id]
            if self._turns:
                self._end_turn(request_id)

    def _end_turn(self, request_id: str) -> None:
        if (turn := self._turns.pop(request_id, None)) is not None:
            turn.close()

    async def stop(self, grace_s: float) -> None:
        """Let attempts that are out come back for `grace_s` seconds, then cancel what is left.

        Guarantee: it returns within `grace_s` and a second; what ignores its cancellation is named in the log, and its
        answer, should it come, is dropped: the request is pending, and runs again at the next owner.
        """
        for ticket in self.waiting.values():
            self._lines[ticket.kind].withdraw(ticket)
        self.waiting.clear()
        for request_id in [*(self._turns.keys() - self._running.keys())]:
            self._end_turn(request_id)
        running = list(self._running.values())
        out = [self._running[request_id] for request_id in self._out]
        if out:
            await asyncio.wait(out, timeout=grace_s)
        self._stops = True
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=_UNWINDS_S)
        self._is_over = True
        for request_id in [each for each, task in self._running.items() if not task.done()]:
            self._leave_behind(request_id, grace_s)

    def _leave_behind(self, request_id: str, grace_s: float) -> None:
        """Name an effect that does not end, and let the process end without it."""
        left = self._running.pop(request_id)
        asyncio.tasks._unregister_task(left)  # noqa: SLF001  documented for who manages tasks: `asyncio.run` would wait for it
        _log.error(
            "%s did not end within %g s of grace and %g s of its cancellation, and is left behind: let CancelledError pass "
            "in it; its request runs again at the next owner",
            left.get_name(),
            grace_s,
            _UNWINDS_S,
        )

    async def _run(self, request: Record, event: Event | None) -> None:
        CALLER.set(request.traceparent)
        SAGA.set(request.correlation_id)
        began_ns = 0 if self._observer is None else self._began_ns(request, self._observer)
        try:
            event = event or await self._log.decode_now(request)
            assert event is not None  # noqa: S101  a service's own request is an event of its choreography
            answer = await self._answer(EffectAttempts(self._effects[request.type or ""], request, event), request)
        except BaseException as raised:
            if self._is_ended_by(raised, request):
                raise
            error = as_error(raised)  # an effect that cannot go on is parked, alone, with its reason
            kept = KeptError.of(error, personal=self._effects[request.type or ""].is_personal)
            answer = Answer(request.event_id, None, *kept)
        if self._is_over:
            return
        if answer is None:
            del self._running[request.event_id]  # at once: it may be started again now
            self._end_turn(request.event_id)
            return
        if answer.event is None:
            failure, about = KeptError(answer.reason, answer.traceback), (request.type or "", request.event_id)
            self._causes.tell(self._service.name, *about, failure, "")
        if self._observer is not None:
            self._observer.answered(self._service, request, began_ns, answer)
        self._answered(answer)

    def _is_ended_by(self, raised: BaseException, request: Record) -> bool:
        """Tell whether the runtime ends an effect, by cancelling it or by closing its coroutine; else its function has."""
        if isinstance(raised, asyncio.CancelledError):
            return self._stops
        return isinstance(raised, GeneratorExit) and not self._runs_now(request)

    def _runs_now(self, request: Record) -> bool:
        try:
            return asyncio.current_task() is self._running.get(request.event_id)
        except RuntimeError:  # no loop runs: a coroutine is closed that was left
            return False

    def _began_ns(self, request: Record, observer: Observer) -> int:
        """Return when an effect began: also what it has waited at a limit is a part of it."""
        turn = self._turns.get(request.event_id)
        return observer.clock() - (0 if turn is None else int(turn.waited_s * 1e9))

    async def _answer(self, attempts: EffectAttempts, request: Record) -> Answer | None:
        """Return what comes of an effect; None when it is paused."""
        while True:
            try:
                answer = await self._attempt(attempts, request)
            except Exception as error:  # noqa: BLE001  the course knows what follows from which error
                follows = attempts.failed(error)
                if isinstance(follows, Answer):
                    kept = KeptError.of(error, personal=self._effects[request.type or ""].is_personal)
                    return follows._replace(traceback=kept.traceback)
                level = logging.WARNING if attempts.are_many else logging.DEBUG
                _log.log(
                    level,
                    "effect for %s %s has failed, and is tried again: %s",
                    request.type,
                    request.event_id,
                    attempts.text_of(error),
                )
                await asyncio.sleep(follows.drawn_s())
            else:
                return None if answer is _PAUSED else attempts.answered(answer)

    async def _attempt(self, attempts: EffectAttempts, request: Record) -> object:
        breaker = self._breakers[attempts.asking.port]
        permit = self._turns.get(request.event_id, self._slots) if self._turns else self._slots
        while True:
            async with _Leave(permit) as leave:
                if self.holds(request):
                    return _PAUSED
                if self._observer is not None and isinstance(permit, Turn):
                    self._observer.waited(self._service, request, attempts.asking, permit.limit, permit.waited_s)
                turn = breaker.begin()
                if turn is not None:
                    self._out.add(request.event_id)
                    try:
                        call = self._call(attempts, request, (breaker, turn), leave)
                        if self._observer is not None:
                            call = self._observer.attempt(self._service, request, attempts.asking, call)
                        return await call
                    finally:
                        self._out.discard(request.event_id)
            await breaker.wait()

    async def _in_thread(self, attempts: EffectAttempts, request: Record, leave: "_Leave") -> object:
        """Return what the effect's plain function gives: it is called in a thread, and may outlive this."""
        arguments = attempts.arguments(self._ports)
        plain = PlainCall(attempts.asking.call, arguments, f"effect for {request.type} {request.event_id}")
        try:
            return await plain.outcome
        finally:
            if not plain.is_over:
                leave.after(plain)
                _log.warning(
                    "%s still runs in its thread: nothing can end that, and its outcome is unknown", plain.name
                )

    async def _call(
        self, attempts: EffectAttempts, request: Record, asked: tuple[Breaker, int], leave: "_Leave"
    ) -> object:
        """Call the outside once, and tell the breaker whether it was there: also an error for good is an answer."""
        breaker, turn = asked
        ask = attempts.asking
        try:
            async with asyncio.timeout(ask.timeout_s):
                if ask.is_plain:
                    answer = await self._in_thread(attempts, request, leave)
                else:
                    answer = await ask.call(*attempts.arguments(self._ports))
        except Exception as error:
            if is_final(error):
                breaker.worked(turn)
            else:
                breaker.failed(turn, attempts.text_of(error))
            raise
        except BaseException as raised:
            if self._is_ended_by(raised, request):
                breaker.abandoned(turn)
                raise
            end = as_error(raised)
            breaker.failed(turn, attempts.text_of(end))
            _forget_cancellation()
            raise end from raised
        breaker.worked(turn)
        return answer


class _Leave:
    """Permission for one call, `async with` it: a slot of the process or a turn at a limit, kept as long as the call lasts."""

    __slots__ = ("_call", "_permit")

    def __init__(self, permit: asyncio.Semaphore | Turn) -> None:
        self._permit = permit
        self._call: PlainCall | None = None

    def after(self, call: PlainCall) -> None:
        """Give the leave back when a call is over that cannot be ended."""
        self._call = call

    async def __aenter__(self) -> Self:
        """Wait for it."""
        permit = self._permit
        await (permit.begin() if isinstance(permit, Turn) else permit.acquire())
        return self

    async def __aexit__(self, *end: object) -> None:
        """Give it back, now or later."""
        permit, call = self._permit, self._call
        if call is not None:
            call.when_over(permit.lend() if isinstance(permit, Turn) else permit.release)
        elif isinstance(permit, Turn):
            permit.give_back()
        else:
            permit.release()


def _forget_cancellation() -> None:
    """Let an attempt that has cancelled its own task leave no trace in the next one."""
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()


_PAUSED: Final = object()
_UNWINDS_S = 1.0
"""How long an effect that is cancelled may take to clean up."""
