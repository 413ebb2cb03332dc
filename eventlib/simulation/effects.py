"""Effects of a simulated world: real retries of real functions, whose calls end as the schedule decides."""

import inspect
from collections.abc import Generator
from enum import Enum
from types import coroutine
from typing import Any, NamedTuple

from eventlib.errors import OutcomeUnknown, TerminalError
from eventlib.ground.ends import as_error
from eventlib.model.event import Event
from eventlib.model.record import Record
from eventlib.runtime.effect_attempts import EffectAttempts
from eventlib.runtime.transaction import Answer
from eventlib.simulation.callbacks import Callbacks
from eventlib.simulation.invariant_monitor import WAITING, broken
from eventlib.simulation.log import driven
from eventlib.simulation.owner import Owner, Reply, RunningEffect
from eventlib.simulation.scenario import Choices
from eventlib.simulation.scheduler import ScheduledMove
from eventlib.simulation.stage import ODD_ENDS
from eventlib.simulation.turns import SimulatedTurns
from eventlib.simulation.world import World


class Call(NamedTuple):
    """A call of a port's method."""

    port: str
    on: object
    method: str
    arguments: tuple[Any, ...]
    named: dict[str, Any]

    def act(self) -> object:
        """Execute it, and return its answer. Raises: what the port raises."""
        return driven(getattr(self.on, self.method)(*self.arguments, **self.named))


class Port:
    """A proxy for one of a scenario's ports: its async methods become calls whose outcome the schedule decides."""

    def __init__(self, name: str, on: object) -> None:
        self._name = name
        self._on = on

    def __getattr__(self, method: str) -> Any:
        found = getattr(self._on, method)
        if not inspect.iscoroutinefunction(found):
            return found

        async def called(*arguments: Any, **named: Any) -> Any:
            return await _asked(Call(self._name, self._on, method, arguments, named))

        return called


@coroutine
def _asked(call: Call) -> Generator[Call, Any, Any]:
    return (yield call)


class CallOutcome(Enum):
    """The outcome of a call; ANSWERS is the harmless one."""

    ANSWERS = "answers"
    TAKES_LONG = "takes its time to answer"
    NEVER_ARRIVES = "never arrives"
    ANSWER_LOST = "acts, and its answer is lost"
    TIMES_OUT = "acts, and answers when nobody listens any more"
    ARRIVES_LATE = "arrives when nobody listens any more"
    ARRIVES_TWICE = "answers, and arrives a second time"
    FAILS = "fails for good"


_SILENT = (CallOutcome.NEVER_ARRIVES, CallOutcome.ANSWER_LOST, CallOutcome.TIMES_OUT, CallOutcome.ARRIVES_LATE)
_OUTCOMES = (*[CallOutcome.ANSWERS] * 7, *tuple(CallOutcome)[1:])
"""Half of the calls succeed."""


def call_outcome(choose: Choices, call: str) -> CallOutcome:
    """Choose a call's outcome."""
    return choose.one_of(f"what becomes of {call}", _OUTCOMES)


def silent_outcome(choose: Choices, call: str) -> CallOutcome:
    """Choose the outcome of a call that gets no answer."""
    return choose.one_of(f"how {call} is not answered", _SILENT)


class SimulatedEffects:
    """Runs the pending effects of a world's owners; without `faults` every call is answered at once."""

    def __init__(self, world: World) -> None:
        self.faults = world.plan.outside
        self.callbacks = Callbacks(world)
        self._world = world
        self._ports = {name: Port(name, port) for name, port in world.outside.items()}
        self._on_their_way: dict[int, Call] = {}
        self._calls = 0
        self._turns = SimulatedTurns(world)
        world.start_effect = self._start
        world.doers |= {"attempt": self._attempt, "land": self._land}

    def _start(self, owner: Owner, request: Record, event: Event | None) -> bool:
        """Begin an effect, as the effect runner does: one that already runs is not started again."""
        running = owner.running_effects.get(request.event_id)
        if running is not None:
            if running.is_put_off:
                self._world.add(ScheduledMove("attempt", owner, request.event_id))
            return True
        effect = owner.effects[request.type or ""]
        event = event or self._world.log.decode(request)
        assert event is not None  # noqa: S101  the service has said it
        silent = self._silence(request, effect.ask.retry.attempts)
        course = EffectAttempts(effect, request, event)
        owner.running_effects[request.event_id] = RunningEffect(request, event, course, silent)
        self._world.add(ScheduledMove("attempt", owner, request.event_id))
        return True

    def _silence(self, request: Record, attempts: int | None) -> int:
        """Return how many of an effect's calls get no answer."""
        if not (self.faults and self._world.plan.silence):
            return 0
        return (attempts or _LONG_SILENCE) if self._world.choose.whether(f"nobody answers {request.type}", 40) else 0

    def _attempt(self, move: ScheduledMove) -> None:
        """Begin an attempt, or continue one after its slow call."""
        owner: Owner = move.whom
        running = owner.running_effects.get(move.what)
        if running is None:
            return
        if running.under_way is None and owner.worker.holds_effect(running.request):
            del owner.running_effects[move.what]  # as the effect runner does: it is started again when it goes on
            self._turns.over(owner, running, unused=True)
            self._let_others_go(owner, move.what)
            return
        try:
            if self._turns.waits(owner, running):
                self._let_others_go(owner, move.what)
                return
            running.is_put_off = running.begun == 0 and not owner.worker.suspects.may_begin(move.what)
            if running.is_put_off:
                self._world.add_moves(owner)
                return
            decider = (running.request.source or "").partition("/")[2]
            if self._world.stage.deadly.get((decider, running.request.subject or "")) == "effect":
                self._world.process_died(owner)
                return
            answer = self._answer(owner, move.what, running)
        except BaseException as raised:  # noqa: BLE001  the course knows what follows from which error
            error = as_error(raised)
            running.under_way = None
            self._turns.over(owner, running)
            follows = running.course.failed(error)
            if not isinstance(follows, Answer):
                self._world.add(ScheduledMove("attempt", owner, move.what))
                self._let_others_go(owner, move.what)
                return
            self._check_attempts(running, error)
            answer = follows
        if answer is not None:
            self._turns.over(owner, running)
            del owner.running_effects[move.what]
            owner.worker.answers.append(answer)
            self._world.add_moves(owner)

    def _let_others_go(self, owner: Owner, request_id: str) -> None:
        """Let an owner go on that runs effects one by one, and whose effect waits for its turn or its next attempt."""
        if owner.worker.suspects.in_hand == request_id:
            owner.worker.suspects.survived()
            self._world.add_moves(owner)

    def _check_attempts(self, running: RunningEffect, error: Exception) -> None:
        attempts = running.course.asking.retry.attempts
        if not isinstance(error, TerminalError) and attempts is not None and running.begun < attempts:
            what = f"{running.request.type} gave up after {running.begun} of {attempts} attempts: {error}"
            self._world.monitor.violations.append(broken(WAITING, running.request.event_id, what))

    def _answer(self, owner: Owner, request_id: str, running: RunningEffect) -> Answer | None:
        """Return an attempt's answer; None while it waits for a call. Raises: what the attempt raises."""
        course = running.course
        reply, running.reply = running.reply or Reply(), None
        if running.under_way is None:
            running.begun += 1
            running.under_way = course.asking.coroutine(course.arguments(self._ports)).__await__()
        under_way = running.under_way
        try:
            while True:
                call = under_way.throw(reply.error) if reply.error else under_way.send(reply.value)
                if not isinstance(call, Call):
                    raise TypeError(f"an effect of {owner.service.name} waits for something else than a port")
                reply, late = self._go(owner, running, call)
                if late:
                    running.reply = reply
                    self._world.add(ScheduledMove("attempt", owner, request_id), after=late)
                    return None
        except StopIteration as end:
            return course.answered(end.value)

    def _go(self, owner: Owner, running: RunningEffect, call: Call) -> tuple[Reply, int]:
        """Choose a call's outcome; return its result, and after how many steps."""
        world = self._world
        outcome = self._outcome(running, call)
        harmless = outcome is CallOutcome.ANSWERS
        if not harmless:
            world.faults[f"a call {outcome.value}"] += 1
        world.story.call(str(owner), call.port, f"{call.method} {outcome.value}", harmless=harmless)
        if outcome is CallOutcome.FAILS:
            return Reply(error=TerminalError("simulated: it will never do that")), 0
        if outcome in {CallOutcome.ARRIVES_LATE, CallOutcome.ARRIVES_TWICE}:
            self._send_late(call)
        if outcome in {CallOutcome.NEVER_ARRIVES, CallOutcome.ARRIVES_LATE}:
            return self._unanswered(), 0
        reply = self._acted(call)
        if outcome is CallOutcome.TAKES_LONG:
            return reply, 1 + world.choose.number_of("for steps", _LONG)
        if outcome is CallOutcome.ANSWER_LOST:
            return self._unanswered(), 0
        return _TIMED_OUT if outcome is CallOutcome.TIMES_OUT else reply, 0

    def _unanswered(self) -> Reply:
        """Return how a call without an answer ends: with an error, or as nobody foresees; nothing is drawn for that."""
        return _UNANSWERED[self._world.agenda.step % len(_UNANSWERED)]

    def _outcome(self, running: RunningEffect, call: Call) -> CallOutcome:
        if not self.faults:
            return CallOutcome.ANSWERS
        if running.silent:
            running.silent -= 1
            return silent_outcome(self._world.choose, call.method)
        return call_outcome(self._world.choose, call.method)

    def _send_late(self, call: Call) -> None:
        self._calls += 1
        self._on_their_way[self._calls] = call
        after = 1 + self._world.choose.number_of("for steps", _LONG)
        self._world.add(ScheduledMove("land", None, self._calls), after=after)

    def _land(self, move: ScheduledMove) -> None:
        """Execute a call whose answer was given up."""
        call = self._on_their_way.pop(move.what)
        self._world.story.note(f"{call.method} arrives late", call.port)
        self._acted(call)

    def stop_faults(self) -> None:
        """Let all that comes from now on be answered, and reported, as it should."""
        self.faults = self.callbacks.faults = False

    def _acted(self, call: Call) -> Reply:
        try:
            return Reply(call.act())
        except Exception as error:  # noqa: BLE001  whatever the outside raises, it is for the effect to know
            return Reply(error=error)
        finally:
            self.callbacks.look()


_UNKNOWN = Reply(error=OutcomeUnknown("simulated: no answer"))
_UNANSWERED = (*[_UNKNOWN] * 15, *(Reply(error=end("simulated")) for end in ODD_ENDS))
_TIMED_OUT = Reply(error=TimeoutError("simulated"))
_LONG_SILENCE = 3
_LONG = 60
