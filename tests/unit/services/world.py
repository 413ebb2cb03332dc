"""All deciders of the shop on queues in memory, interleaved at random: each topic keeps its order per key, no more."""

import random
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from eventlib.errors import OutcomeUnknown
from eventlib.model.decider import Decider, EmittedMeta
from eventlib.model.effect import Effect
from eventlib.model.event import Event, Meta, contract_of, key_of
from eventlib.model.identity import derived_id
from services import shop
from tests.unit.services.outside import FickleCarrier, FickleGateway


@dataclass
class Actor:
    """One decider for one key: its state (None: forgotten), and how far it has read each topic."""

    decider: Decider[Any]
    key: str
    state: Any = None
    read: Counter[str] = field(default_factory=Counter)


@dataclass
class Pending:
    """An effect that was requested and not answered yet."""

    effect: Effect
    request: Event
    meta: Meta
    attempts_left: int = 2


READERS: dict[str, list[Decider[Any]]] = defaultdict(list)
EFFECTS: dict[type[Event], Effect] = {}
for _decider in shop.deciders:
    EFFECTS |= _decider.effects
    for _topic in sorted({contract_of(event).topic.name for event in _decider.handlers}):
        READERS[_topic].append(_decider)


class World:
    """A shop whose every next step is drawn at random, at a pace that each reader of a topic keeps for a while."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.at = datetime(2026, 1, 1, tzinfo=UTC)
        self.log: dict[tuple[str, str], list[tuple[Event, Meta]]] = defaultdict(list)
        self.said: list[tuple[Event, Meta]] = []
        self.actors: dict[tuple[str, str], Actor] = {}
        self.pending: list[Pending] = []
        self.unread: dict[tuple[str, str, str], Actor] = {}
        self.requests: list[Event] = []
        self.gateway = FickleGateway(self.random)
        self.carrier = FickleCarrier(self.random)
        self.pace = defaultdict[tuple[str, str], float](lambda: 10 ** self.random.uniform(-3, 0))

    def run(self, after_each: Callable[["World"], None]) -> None:
        """Take steps until nothing is left to do; time passes last, and sometimes in between."""
        for _ in range(20_000):
            if not self._step():
                return
            after_each(self)
        raise AssertionError("the world does not come to rest")

    def state(self, decider: str, key: str) -> Any:
        """Return a decider's state for a key."""
        actor = self.actors.get((decider, key))
        return shop.decider(decider).initial if actor is None or actor.state is None else actor.state

    def _step(self) -> bool:
        self.at += timedelta(seconds=1)
        if self.requests and (self.random.random() < 0.05 or not (self.unread or self.pending)):
            self._publish(self.requests.pop(0), f"request {len(self.requests)}")
        elif self.pending and (self.random.random() < 0.1 or not self.unread):
            self._try_effect(self.random.choice(self.pending))
        elif self.unread and self.random.random() > 0.01:
            self._read()
        else:
            return self._let_time_pass()
        return True

    def _read(self) -> None:
        ready = list(self.unread)
        weights = [self.pace[name, topic] for name, _, topic in ready]
        (place,) = self.random.choices(ready, weights)
        actor, topic = self.unread[place], place[2]
        records = self.log[topic, actor.key]
        event, meta = records[actor.read[topic]]
        actor.read[topic] += 1
        if actor.read[topic] == len(records):
            del self.unread[place]
        if type(event) not in actor.decider.handlers:
            return
        state, said = actor.decider.decide(_state(actor), event, meta, self._said_meta(meta.id, actor))
        self._commit(actor, meta.id, state, said)

    def _let_time_pass(self) -> bool:
        due = [
            (at, name, actor)
            for actor in self.actors.values()
            if actor.state is not None
            and not any((actor.decider.name, actor.key, t) in self.unread for t in actor.read)
            for name, at in actor.decider.due(actor.state).items()
        ]
        if not due:
            return bool(self.unread or self.pending or self.requests)
        at, name, actor = self.random.choice(due)
        self.at = max(self.at, at)
        cause = derived_id("deadline", name, actor.key, int(at.timestamp()))
        meta = Meta(id=cause, recorded_at=self.at, subject=actor.key)
        state, said = actor.decider.pass_deadline(name, actor.state, meta, self._said_meta(cause, actor))
        self._commit(actor, cause, state, said)
        return True

    def _try_effect(self, pending: Pending) -> None:
        effect, asking = pending.effect, pending.effect.ask
        if not pending.attempts_left and effect.otherwise is not None:
            self._answer(pending, effect.otherwise(pending.request))
            return
        pending.attempts_left = max(0, pending.attempts_left - 1)
        port = getattr(self, str(asking.port))
        arguments = [pending.request, port, pending.meta] if asking.wants_meta else [pending.request, port]
        with suppress(OutcomeUnknown):
            self._answer(pending, _finish(asking.coroutine(arguments)))

    def _answer(self, pending: Pending, answer: Event) -> None:
        assert type(answer) in pending.effect.emits
        self.pending.remove(pending)
        self._publish(answer, pending.meta.id)

    def _commit(self, actor: Actor, cause: str, state: Any, said: list[Event]) -> None:
        actor.state = state
        for ordinal, event in enumerate(said):
            self._publish(event, cause, ordinal, actor)

    def _publish(self, event: Event, cause: str, ordinal: int = 0, by: Actor | None = None) -> None:
        topic, key = contract_of(type(event)).topic.name, key_of(event) or ""
        meta = self._said_meta(cause, by)([event], ordinal)
        self.log[topic, key].append((event, meta))
        self.said.append((event, meta))
        for decider in READERS[topic]:
            actor = self.actors.setdefault((decider.name, key), Actor(decider, key))
            actor.read[topic] += 0
            self.unread[decider.name, key, topic] = actor
        if by is not None and type(event) in EFFECTS:
            self.pending.append(Pending(EFFECTS[type(event)], event, meta))

    def _said_meta(self, cause: str, by: Actor | None) -> EmittedMeta:
        name, key = ("outside", "") if by is None else (by.decider.name, by.key)

        def meta(_said: Sequence[Event], ordinal: int) -> Meta:
            return Meta(derived_id(cause, name, key, ordinal), recorded_at=self.at, causation_id=cause, subject=key)

        return meta


def _state(actor: Actor) -> Any:
    return actor.decider.initial if actor.state is None else actor.state


def _finish(answering: Awaitable[Event]) -> Event:
    """Run a coroutine that never waits."""
    try:
        next(answering.__await__())
    except StopIteration as stop:
        answer: Event = stop.value
        return answer
    raise AssertionError("the ports of this world never wait")
