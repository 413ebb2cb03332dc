"""A simulated process that owns one task: its worker, its local store, and the effects that it runs."""

from collections.abc import Callable, Coroutine, Generator
from typing import Any, NamedTuple

from eventlib.log.base import Claim
from eventlib.model.effect import Effect
from eventlib.model.event import Event
from eventlib.model.record import Record
from eventlib.model.service import Service
from eventlib.runtime.committer import TaskCommitter
from eventlib.runtime.effect_attempts import EffectAttempts
from eventlib.runtime.effect_queue import EffectQueue, Ticket
from eventlib.runtime.turns import queues_of
from eventlib.simulation.log import Point, SimulatedReader


class Interruption(NamedTuple):
    """Where an owner's next turn is interrupted, and what happens then."""

    at: Point
    happen: Callable[[], None]


class Reply(NamedTuple):
    """The result of a call to an external system."""

    value: object = None
    error: BaseException | None = None


class RunningEffect:
    """An effect that an owner runs: its request, its retries, and the current attempt.

    `silent` is how many of its calls get no answer, `reply` the result of a slow call, `begun` how many attempts it made.
    `ticket` is its place at a limit, and `has_turn` whether its turn has come. `is_put_off` is whether it begins alone, later.
    """

    def __init__(self, request: Record, event: Event, course: EffectAttempts, silent: int) -> None:
        self.request = request
        self.event = event
        self.course = course
        self.silent = silent
        self.under_way: Generator[Any, Any, Event] | None = None
        self.reply: Reply | None = None
        self.begun = 0
        self.ticket: Ticket | None = None
        self.has_turn = False
        self.is_put_off = False


class Owner:
    """One process's ownership of one task, from its start to its death or the loss of its claim.

    `interrupted` is what happens to its next turn, `turn` the one that is paused.
    """

    def __init__(self, service: Service, claim: Claim, number: int) -> None:
        self.service = service
        self.claim = claim
        self.number = number
        self.worker: TaskCommitter
        self.reader: SimulatedReader
        self.effects: dict[str, Effect] = {
            request.__name__: effect for decider in service.deciders for request, effect in decider.effects.items()
        }
        self.running_effects: dict[str, RunningEffect] = {}
        self.queues: dict[str, EffectQueue] = queues_of(service)
        self.places = [(topic.name, claim.partition) for topic in (*service.inputs, service.control)]
        self.alive = True
        self.is_given_up = False
        self.skew_ms = 0
        self.interrupted: Interruption | None = None
        self.turn: Coroutine[Any, Any, None] | None = None

    @property
    def task(self) -> tuple[str, int]:
        """The service and the partition."""
        return self.service.name, self.claim.partition

    def waiting(self, kind: str) -> list[Ticket]:
        """Return the tickets of a kind of effect that wait at a limit."""
        effects = self.running_effects.values()
        return [e.ticket for e in effects if e.ticket is not None and not e.has_turn and e.ticket.kind == kind]

    def __str__(self) -> str:
        name = f"{self.service.name}/{self.claim.partition}"
        return f"{name} (the old owner)" if self.is_given_up else name

    def end(self) -> None:
        """Kill it."""
        self.alive = False
        for running in self.running_effects.values():
            if running.under_way is not None:
                running.under_way.close()
        self.running_effects.clear()
        if self.turn is not None:
            self.turn.close()
            self.turn = None
