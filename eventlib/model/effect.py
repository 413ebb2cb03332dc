"""Effects: the only way from a decider to the outside world."""

import inspect
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from eventlib.errors import WiringError
from eventlib.ground.arguments import check
from eventlib.model import signatures
from eventlib.model.event import Event, contract_of
from eventlib.model.personal import is_personal


@dataclass(frozen=True, slots=True)
class Retry:
    """How often an effect is tried, and how long it waits in between.

    `attempts` counts the first try; None never gives up; the default ten last for about a minute. Pauses double from
    `first_pause_s` up to `longest_pause_s`, with up to `jitter_s` added at random, so that many effects do not come back
    at the same moment.
    """

    attempts: int | None = 10
    first_pause_s: float = 0.1
    longest_pause_s: float = 30.0
    jitter_s: float = 0.1

    def __post_init__(self) -> None:
        """Refuse a policy that could never try."""
        check(self.attempts, (int, type(None)), "Retry(attempts=...)", "give a number, or None to never give up")
        if self.attempts is not None and self.attempts < 1:
            raise WiringError(f"Retry(attempts={self.attempts}): give at least 1, or None to never give up")


FOREVER = Retry(attempts=None, longest_pause_s=60.0)
"""For compensations: they do not give up."""


def default_retry(*, gives_up: bool) -> Retry:
    """Return how an effect without `retry` is tried: for as long as an outage lasts, unless it has something else to emit."""
    return Retry() if gives_up else Retry(attempts=None)


@dataclass(frozen=True, slots=True)
class Asking:
    """A function that asks the outside world: what it may answer, which port it calls, how it is tried.

    `is_plain` when it is not a coroutine function: the runtime calls it in a thread.
    """

    call: Callable[..., Any]  # it returns an event, or an awaitable of one
    answers: tuple[type[Event], ...]
    port: str | None
    wants_meta: bool
    retry: Retry
    timeout_s: float
    is_plain: bool = False

    def coroutine(self, arguments: Sequence[Any]) -> Coroutine[Any, Any, Event]:
        """Return an attempt as a coroutine, which calls a plain function at once, without a thread: for simulations."""
        return (
            _at_once(self.call, arguments)
            if self.is_plain
            else cast("Coroutine[Any, Any, Event]", self.call(*arguments))
        )


async def _at_once(call: Callable[..., Any], arguments: Sequence[Any]) -> Event:
    return cast("Event", call(*arguments))


@dataclass(frozen=True, slots=True)
class Effect:
    """The call to the outside when `request` is emitted: each attempt takes at most `timeout_s` seconds.

    It asks by a coroutine function, or by a plain one, which runs in a thread. A thread cannot be ended: after `timeout_s`
    the attempt has failed, its outcome is unknown, and its slot and its turn at a limit stay taken until the thread ends;
    the next attempt may be out beside it, under the same idempotency key.

    Guarantee: runs at least once, under the request's id as idempotency key; its answer enters the log exactly once.
    When the retries are used up `otherwise` emits the event that follows; without it the effect is parked, alone. To
    ask something else then is an effect of its own, requested by a decider in answer to that event: so it is decided
    once, and no process continues with the first question meanwhile, not even one that was taken for dead.
    """

    request: type[Event]
    ask: Asking
    otherwise: Callable[[Event], Event] | None
    uncertain: tuple[type[Event], ...]
    """The events that `otherwise` emits: the outcome of the call is unknown."""
    awaits: tuple[type[Event], ...] = ()
    """The events by which the outside reports later, by itself; the decider handles them as any other."""
    within: str | None = None
    """The decider's deadline that ends the wait for those."""

    @property
    def emits(self) -> tuple[type[Event], ...]:
        """Every event that this effect can put on the log."""
        return tuple(dict.fromkeys(self.ask.answers + self.uncertain))

    @property
    def leads_to(self) -> tuple[type[Event], ...]:
        """Every event that follows from this effect: what it emits, and what is reported later."""
        return self.emits + self.awaits

    @property
    def is_personal(self) -> bool:
        """Whether its request, or an event that follows from it, has personal fields."""
        return is_personal(self.request, *self.leads_to)

    @property
    def gives_up(self) -> bool:
        """Whether it can end without an answer, parked until a person looks at it."""
        return self.otherwise is None and self.ask.retry.attempts is not None

    @property
    def asks(self) -> str:
        """A name for people: the port, or the function of an effect without one."""
        return self.ask.port or signatures.name_of(self.ask.call)

    @property
    def ports(self) -> set[str]:
        """The names of the ports that have to be given when the service is started."""
        return set() if self.ask.port is None else {self.ask.port}


def effect_of(
    request: type[Event],
    function: Callable[..., Any],
    retry: Retry,
    timeout_s: float,
    otherwise: Callable[..., Any] | None,
) -> Effect:
    """Read an effect off its functions. Raises: WiringError when they declare nothing, or one yields."""
    where = f"effect {signatures.name_of(function)}"
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise WiringError(f"{where} yields: an effect answers once, so let it return its event")
    ask = _asking(function, where, retry, timeout_s)
    if otherwise is None:
        return Effect(request, ask, None, ())
    where = f"{where}, otherwise={signatures.name_of(otherwise)}"
    if inspect.iscoroutinefunction(otherwise):
        raise WiringError(
            f"{where} is async: what follows without an answer is decided once, so emit an event, and ask the next "
            "question in an effect of its own"
        )
    return Effect(request, ask, otherwise, signatures.answers(otherwise, where, depth=3))


def awaiting(effect: Effect, awaited: Sequence[type[Event]], within: str | None, key: str | None, where: str) -> Effect:
    """Return an effect whose request is completed later by what is awaited. Raises: WiringError."""
    for event in signatures.events_in(awaited, f"{where}, awaits=", "name the classes of events that are awaited"):
        contract = contract_of(event)
        if not (contract.request or contract.external):
            raise WiringError(
                f"{where}, awaits={event.__name__}: what comes later comes from outside: declare it with request=True, and "
                "once_for= for how long a report of it may come again; or external=, if others write its topic"
            )
        if contract.key != key:
            raise WiringError(
                f"{where}, awaits={event.__name__}: it has key {contract.key!r}, and the decider that asks has {key!r}"
            )
    return replace(effect, awaits=tuple(awaited), within=within)


def _asking(function: Callable[..., Any], where: str, retry: Retry, timeout_s: float) -> Asking:
    parameters = signatures.positional(function)
    match len(parameters):
        case 1:
            port = None
        case 2 | 3:
            port = parameters[1].name
        case count:
            raise WiringError(
                f"{where} takes {count} arguments; expected (event), (event, port) or (event, port, meta)"
            )
    wants_meta = len(parameters) == 3  # noqa: PLR2004  (event, port, meta)
    answers = signatures.answers(function, where, depth=4)
    return Asking(function, answers, port, wants_meta, retry, timeout_s, not inspect.iscoroutinefunction(function))
