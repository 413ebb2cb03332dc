"""Deciders: one state per key, what each event does to it, and what is emitted in answer."""

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cached_property
from typing import Any, Generic, TypeVar, cast, overload

from eventlib.errors import ContractError, WiringError
from eventlib.ground.ends import as_error
from eventlib.model import signatures
from eventlib.model.deadline import Deadline
from eventlib.model.effect import Effect, Retry, awaiting, default_retry, effect_of
from eventlib.model.event import Event, Meta, contract_of
from eventlib.model.handler import FOLLOWS, Handler, handler_of, refuse_unemittable
from eventlib.model.personal import is_personal, personal_fields
from eventlib.model.schema.normal import normal, normal_evolve
from eventlib.model.searchable import check_searchable

S = TypeVar("S")
E = TypeVar("E", bound=Event)
R = TypeVar("R", bound=Event)
F = TypeVar("F", bound=Callable[..., Any])
EmittedMeta = Callable[[Sequence[Event], int], Meta]


class _On(Generic[S, E]):
    """Registers a handler for events that were named; its shapes are (state, event) and (state, event, meta)."""

    def __init__(self, decider: "Decider[S]", event_types: Sequence[type[Event]]) -> None:
        self._decider = decider
        self._event_types = event_types

    @overload
    def __call__(self, handler: Callable[[S, E], list[R]]) -> Callable[[S, E], list[R]]: ...
    @overload
    def __call__(self, handler: Callable[[S, E, Meta], list[R]]) -> Callable[[S, E, Meta], list[R]]: ...
    @overload
    def __call__(self, handler: Callable[[S, E], None]) -> Callable[[S, E], None]: ...
    @overload
    def __call__(self, handler: Callable[[S, E, Meta], None]) -> Callable[[S, E, Meta], None]: ...
    def __call__(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        return self._decider._register(handler, self._event_types)  # noqa: SLF001  it is half of `Decider.on`


class Decider(Generic[S]):
    """The unit of behaviour: one state (a frozen dataclass with defaults) per key, and pure functions on it.

    For one input: state = evolve(state, input); emitted = handler(state, input); state = evolve(state, each emitted).
    Guarantee: inputs of one key are handled one after the other, in the order of their topic; between topics no
    order is promised, so a decider remembers what came early.

    `key` names the field that all its events have as their key. With None it handles keyless events, and has one
    state for each partition: for an external topic that is not partitioned by what is in it, to emit events under a key.

    A request is handled once while its id is remembered: as one of the newest 8 of its key, or for the time that its event
    declares (`once_for`); after them as one of the newest `requests_remembered`, for seven days or the declared time.
    """

    def __init__(self, name: str, *, state: type[S], key: str | None, requests_remembered: int = 10_000) -> None:
        if not dataclasses.is_dataclass(state) or not state.__dataclass_params__.frozen:  # type: ignore[attr-defined]  # not in typeshed
            raise WiringError(
                f"decider {name}: state {state.__name__} must be a frozen dataclass: @dataclass(frozen=True)"
            )
        try:
            state()
        except TypeError as error:
            raise WiringError(
                f"decider {name}: every field of state {state.__name__} needs a default ({error})"
            ) from error
        if requests_remembered < 1:
            raise WiringError(
                f"decider {name}: requests_remembered={requests_remembered} says how many requests of a key are remembered, "
                "so that one that comes again is not handled again: give a number from 1 on"
            )
        with suppress(NameError):  # its names are defined later: the codec checks again before anything is written
            personal_fields(state)
        check_searchable(state)
        self.name = name
        self.state = state
        self.key = key
        self.requests_remembered = requests_remembered
        self.handlers: dict[type[Event], Handler] = {}
        self.effects: dict[type[Event], Effect] = {}
        self.deadlines: dict[str, Deadline[S]] = {}
        self.forgotten_at: Callable[[S], datetime | None] | None = None
        self._evolve: Callable[..., S | None] = unchanged
        self.evolve_wants_meta = False
        self.may_forget = False
        """Whether its evolve says in its return annotation that it may return None."""

    def __repr__(self) -> str:
        return f"Decider({self.name!r})"

    @cached_property
    def initial(self) -> S:
        """The state of a key that has none."""
        return normal(self.state())

    @cached_property
    def _apply(self) -> Callable[..., S | None]:
        """`evolve`, whose states are what their bytes give back; made once all classes are declared."""
        return normal_evolve(self._evolve, self.state, wants_meta=self.evolve_wants_meta)

    @property
    def is_personal(self) -> bool:
        """Whether its state, or an event that it handles or emits, has personal fields."""
        return is_personal(self.state, *self.handlers, *self.emits)

    @overload
    def on(self, event_type: type[E], /) -> _On[S, E]: ...
    @overload
    def on(self, handler: Callable[[S, E], list[R]], /) -> Callable[[S, E], list[R]]: ...
    @overload
    def on(self, handler: Callable[[S, E, Meta], list[R]], /) -> Callable[[S, E, Meta], list[R]]: ...
    @overload
    def on(self, handler: Callable[[S, E], None], /) -> Callable[[S, E], None]: ...
    @overload
    def on(self, handler: Callable[[S, E, Meta], None], /) -> Callable[[S, E, Meta], None]: ...
    @overload
    def on(self, a: type[Event], b: type[Event], /, *more: type[Event]) -> _On[S, Any]: ...
    def on(self, *handler_or_events: Any) -> Any:
        """Register the decorated pure function as the handler of the events in its second parameter's type.

        `@orders.on` above `def place(order: Order, asked: OrderSubmitted) -> list[OrderPlaced]`; a third parameter gets
        the event's Meta. The return type names what it may emit, `None` nothing. `@orders.on(OrderSubmitted)`, which
        names the events a second time, is an older way to write the same.
        Raises: WiringError for a second handler of an event, an event with another key than the decider's, an event
        that the function does not take, or a missing annotation.
        """
        first = handler_or_events[0] if len(handler_or_events) == 1 else None
        if callable(first) and not isinstance(first, type):
            return self._register(first, None)
        remedy = f"write `@{self.name}.on`, without parentheses, above the handler"
        return _On(self, signatures.events_in(handler_or_events, f"{self.name}.on", remedy))

    def follows(self, *event_types: type[Event]) -> None:
        """Declare events that only change the state: `evolve` sees them, and nothing is emitted in answer.

        Raises: WiringError as `on` does.
        """
        where = f"{self.name}.follows"
        for event_type in signatures.events_in(event_types, where, "name the classes of events"):
            self.add_handler(event_type, FOLLOWS, where)

    def _register(self, function: Callable[..., Any], named: Sequence[type[Event]] | None) -> Callable[..., Any]:
        """Take a handler in, for the events that are named, or else for those that it takes."""
        where = f"{self.name}.{signatures.name_of(function)}"
        hints = signatures.hints_of(function, where, 3)
        handler = handler_of(function, hints, 2, where)
        if named is None:
            named = signatures.handled(function, hints, where)
        else:
            signatures.refuse_others(function, hints, named, where)
        for event_type in named:
            self.add_handler(event_type, handler, where)
        return function

    def evolve(self, function: F) -> F:
        """Register the pure function that applies an event to the state; None forgets the key.

        None is taken only from a function whose return annotation has it, `-> State | None`: else a path without
        `return state` would lose the state, so its input is parked.
        It sees every event that the decider handles or emits, in order, and returns the state as it is for all others.
        Guarantee: the next function is given what the state's bytes give back, whether it was restored meanwhile or not.
        """
        if self._evolve is not unchanged:
            raise WiringError(f"decider {self.name} has an evolve already: {signatures.name_of(self._evolve)}")
        where = f"{self.name}.{signatures.name_of(function)}"
        signatures.refuse_async(function, where)
        self.evolve_wants_meta = signatures.takes_meta(function, 2, where)
        self.may_forget = signatures.may_return_none(function)
        self._evolve = function
        self.__dict__.pop("_apply", None)
        return function

    def deadline(self, due_at: Callable[[S], datetime | None]) -> Deadline[S]:
        """Declare a time (UTC) that follows from the state; `@<name>.passed` registers what happens then.

        Guarantee: fires once for each due time, after everything that was on the inputs when it fell due.
        """
        signatures.refuse_async(due_at, f"{self.name}.{signatures.name_of(due_at)}")
        deadline = Deadline[S](self.name, due_at)
        if deadline.name in self.deadlines:
            raise WiringError(f"decider {self.name} has two deadlines named {deadline.name}")
        self.deadlines[deadline.name] = deadline
        return deadline

    def forget(self, forgotten_at: Callable[[S], datetime | None]) -> Callable[[S], datetime | None]:
        """Declare when (UTC) the key's state is given up, so that ended sagas do not fill the store."""
        if self.forgotten_at is not None:
            raise WiringError(f"decider {self.name} declares twice when a key is forgotten")
        signatures.refuse_async(forgotten_at, f"{self.name}.{signatures.name_of(forgotten_at)}")
        self.forgotten_at = forgotten_at
        return forgotten_at

    def effect(
        self,
        request: type[Event],
        *,
        retry: Retry | None = None,
        timeout_s: float = 10.0,
        otherwise: Callable[..., Any] | None = None,
        awaits: type[Event] | tuple[type[Event], ...] = (),
        within: Deadline[S] | None = None,
    ) -> Callable[[F], F]:
        """Run the decorated function, async or plain, outside whenever this decider emits `request`; its answer goes on the log.

        A plain function runs in a thread, under the same time-outs, limits and key: see Effect.
        The function takes (event), (event, port) or (event, port, meta); the second parameter's name is the port's.
        `meta.id` is the idempotency key. See Effect for the guarantee.

        An error is retried, unless it is final: a TerminalError, or `raise_for_status()` of an HTTP status below 500 other than
        408, 409, 425 and 429; that parks the effect. `otherwise` returns the event that follows when the attempts of `retry`
        are used up. Without `retry` there are ten, in about a minute; an effect without `otherwise` never gives up.

        `awaits` names what completes the request when the answer is only that it was accepted: events from outside, such as
        a callback, that this decider handles. They may come late, twice, before the answer, or after all is called off:
        each is a case that its handler decides. `within` is the deadline of this decider that ends the wait.
        Raises: WiringError for an awaited event that does not come from outside, or has another key.
        """

        def register(function: F) -> F:
            where = f"effect {signatures.name_of(function)} of {self.name}"
            if request in self.effects:
                raise WiringError(f"{where}: {request.__name__} has an effect already")
            effect = effect_of(
                request, function, retry or default_retry(gives_up=otherwise is not None), timeout_s, otherwise
            )
            refuse_unemittable((request, *effect.emits), where)
            if awaits or within is not None:
                awaited = awaits if isinstance(awaits, tuple) else (awaits,)
                effect = awaiting(effect, awaited, self._own(within, where), self.key, where)
            self.effects[request] = effect
            return function

        return register

    def _own(self, within: Deadline[S] | None, where: str) -> str | None:
        """Return the name of a deadline of this decider. Raises: WiringError for anything else."""
        if within is None:
            return None
        if not (isinstance(within, Deadline) and self.deadlines.get(within.name) is within):
            raise WiringError(
                f"{where}, within={within!r}: give a deadline of {self.name}: `@{self.name}.deadline` above a function that "
                "returns, for a state that waits, when the wait ends"
            )
        return within.name

    def add_handler(self, event_type: type[Event], handler: Handler, where: str) -> None:
        """Take a handler in. Raises: WiringError when it cannot be this decider's."""
        if event_type in self.handlers:
            raise WiringError(f"{where}: {event_type.__name__} is handled already, by {self.handlers[event_type].name}")
        key = contract_of(event_type).key
        if key is None and contract_of(event_type).request:
            raise WiringError(
                f"{where}: {event_type.__name__} is a request without a key: the decider remembers each answer permanently, and "
                "that needs a key of its own; name one of its fields as the key"
            )
        if key != self.key:
            raise WiringError(
                f"{where}: {event_type.__name__} has key {key!r}, but decider {self.name} has key {self.key!r}; "
                "an event under another key goes to another decider, or needs a topic of its own under this key"
            )
        self.handlers[event_type] = handler

    @property
    def emits(self) -> tuple[type[Event], ...]:
        """Every event that this decider, its deadlines or its effects can say."""
        handlers = [*self.handlers.values(), *(d.handler for d in self.deadlines.values() if d.handler)]
        emitted = [event for handler in handlers for event in handler.emits]
        answered = [event for effect in self.effects.values() for event in effect.emits]
        return tuple(dict.fromkeys(emitted + answered))

    @property
    def awaits(self) -> tuple[type[Event], ...]:
        """Every event that its effects await from outside."""
        return tuple(dict.fromkeys(event for effect in self.effects.values() for event in effect.awaits))

    @property
    def functions(self) -> list[Callable[..., Any]]:
        """The pure functions that decide: handlers, deadlines, evolve, and when a key is forgotten."""
        functions: list[Callable[..., Any]] = [each.call for each in self.handlers.values() if each is not FOLLOWS]
        functions += [deadline.due_at for deadline in self.deadlines.values()]
        functions += [d.handler.call for d in self.deadlines.values() if d.handler is not None]
        functions += [self._evolve] if self.forgotten_at is None else [self._evolve, self.forgotten_at]
        return functions

    @property
    def modules(self) -> set[str]:
        """The names of the modules that its state, its events and its functions are declared in."""
        return {declared.__module__ for declared in (self.state, *self.handlers, *self.emits, *self.functions)}

    @property
    def declared_evolve(self) -> Callable[..., Any]:
        """Its `evolve`, as it is written; `unchanged` if it has none."""
        return self._evolve

    @property
    def evolving(self) -> Handler:
        """Its `evolve` as the application has written it, as what is called for an event that it follows."""
        return Handler(cast("Callable[..., Any]", self._evolve), (), self.evolve_wants_meta)

    @property
    def evolves(self) -> Callable[..., S | None]:
        """Its `evolve`, whose states are what their bytes give back."""
        return self._apply

    @property
    def has_deadlines(self) -> bool:
        """Whether any time follows from a state."""
        return bool(self.deadlines) or self.forgotten_at is not None

    def due(self, state: S) -> dict[str, datetime]:
        """Return the deadlines that follow from a state, by name; FORGET is when the key is given up."""
        found = dict[str, datetime]()
        try:
            for name, deadline in self.deadlines.items():
                if (at := deadline.due_at(state)) is not None:
                    found[name] = at
            if self.forgotten_at is not None and (at := self.forgotten_at(state)) is not None:
                found[FORGET] = at
        except Exception:
            raise
        except BaseException as raised:
            raise as_error(raised) from raised
        return found

    def wants_meta(self, event_type: type[Event]) -> bool:
        """Tell whether handling an event needs its Meta, so that none is made in vain."""
        return self.evolve_wants_meta or self.handlers[event_type].wants_meta

    def evolved(self, state: S, event: Event, meta: Meta) -> S | None:
        """Return the state after one event that was handled or emitted; None forgets the key."""
        try:
            return self._apply(state, event, meta) if self.evolve_wants_meta else self._apply(state, event)
        except Exception:
            raise
        except BaseException as raised:
            raise as_error(raised) from raised

    def decide(self, state: S, event: Event, meta: Meta, emitted_meta: EmittedMeta) -> tuple[S | None, list[Event]]:
        """Handle one input: return the state after it (None: the key is forgotten), and what is emitted.

        `emitted_meta(emitted, ordinal)` gives the Meta of each event emitted; it is asked only when evolve wants it.
        Raises: ContractError when the handler emits an event that is not in its annotation.
        """
        apply, wants_meta = self._apply, self.evolve_wants_meta
        try:
            evolved = apply(state, event, meta) if wants_meta else apply(state, event)
            if evolved is None and not self.may_forget:
                raise self.lost(event)  # noqa: TRY301  an extra call for each event costs too much here
            emitted = self.answer(self.initial if evolved is None else evolved, event, meta)
        except Exception:
            raise
        except BaseException as raised:
            raise as_error(raised) from raised
        return self._after(evolved, emitted, emitted_meta) if emitted else evolved, emitted

    def lost(self, event: Event) -> ContractError:
        """Return the error for a state that evolve has lost, since it returned nothing for an event."""
        name, state = f"{self.name}.{signatures.name_of(self._evolve)}", self.state.__name__
        return ContractError(
            f"{name} returned None for {type(event).__name__}, and the key's state would be lost: let each path end with "
            f"`return` and a {state}; if the key is to be forgotten, annotate {name} with `-> {state} | None`"
        )

    def answer(self, state: S, event: Event, meta: Meta) -> list[Event]:
        """Return what is emitted in answer to an event that the state has seen. Raises: ContractError as `decide` does."""
        handler = self.handlers[type(event)]
        try:
            emitted = handler.call(state, event, meta) if handler.wants_meta else handler.call(state, event)
            return self._listed(handler, emitted) if emitted else []
        except Exception:
            raise
        except BaseException as raised:
            raise as_error(raised) from raised

    def pass_deadline(self, name: str, state: S, meta: Meta, emitted_meta: EmittedMeta) -> tuple[S | None, list[Event]]:
        """Handle a deadline that has passed: return the state after it (None: forgotten), and what is emitted."""
        emitted = self.answer_deadline(name, state, meta)
        return None if name == FORGET else self._after(state, emitted, emitted_meta), emitted

    def answer_deadline(self, name: str, state: S, meta: Meta) -> list[Event]:
        """Return what is emitted when a deadline has passed. Raises: ContractError as `decide` does."""
        handler = None if name == FORGET else self.deadlines[name].handler
        if handler is None:
            return []
        try:
            return self._listed(handler, handler.call(state, meta) if handler.wants_meta else handler.call(state))
        except Exception:
            raise
        except BaseException as raised:
            raise as_error(raised) from raised

    def _after(self, state: S | None, emitted: Sequence[Event], emitted_meta: EmittedMeta) -> S | None:
        """Return the state (None: forgotten) after events that the decider has emitted; `emitted_meta` as in `decide`."""
        try:
            for ordinal, event in enumerate(emitted):
                before = self.initial if state is None else state
                state = (
                    self._apply(before, event, emitted_meta(emitted, ordinal))
                    if self.evolve_wants_meta
                    else self._apply(before, event)
                )
                if state is None and not self.may_forget:
                    raise self.lost(event)  # noqa: TRY301  an extra call for each event costs too much here
        except Exception:
            raise
        except BaseException as raised:
            raise as_error(raised) from raised
        return state

    def _listed(self, handler: Handler, emitted: Sequence[Event] | None) -> list[Event]:
        if not emitted:
            return []
        events = list(emitted)  # at once: what yields its events gives them once
        for event in events:
            if type(event) not in handler.emits:
                if isinstance(handed := cast("object", emitted), Event):
                    raise ContractError(
                        f"{self.name}.{handler.name} returned one {type(handed).__name__}: return a list"
                    )
                raise ContractError(
                    f"{self.name}.{handler.name} emitted {type(event).__name__}, which is not in its return type; "
                    "add it there, since the graph and every reader go by that"
                )
        return events


def unchanged(state: S, _event: Event) -> S:
    """Return the state as it is: the evolve of a decider that declares none."""
    return state


FORGET = "forget"
"""The name under which the end of a key's state is scheduled, beside the deadlines' own names."""
