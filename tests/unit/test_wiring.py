"""Wiring mistakes fail at import, with a sentence that says what to do."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Never

import pytest

from eventlib import Choreography, Decider, Event, Meta, Service, Topic, WiringError
from eventlib.model.handler import Handler


class Asked(Event, topic="asked", key="order_id"):
    order_id: str


class Granted(Event, topic="granted", key="order_id"):
    order_id: str


class BySku(Event, topic="shelves", key="sku"):
    sku: str


class Submitted(Event, topic="requests", key="order_id", request=True):
    order_id: str


class Narrow(Event, topic=Topic("narrow", partitions=2), key="order_id"):
    order_id: str


@dataclass(frozen=True)
class State:
    count: int = 0


META = Meta(id="1", recorded_at=datetime(2026, 1, 31, tzinfo=UTC))


def orders() -> "Decider[State]":
    return Decider("order", state=State, key="order_id")


def test_an_event_needs_a_topic() -> None:
    with pytest.raises(WiringError, match=r"event Lost has no topic: write `class Lost\(Event, topic="):

        class Lost(Event):
            order_id: str


def test_an_event_needs_a_key() -> None:
    with pytest.raises(WiringError, match="event Keyless has no key: name the field, or write key=None"):

        class Keyless(Event, topic="orders"):
            order_id: str


def test_the_key_is_a_field() -> None:
    with pytest.raises(WiringError, match=r"key 'id' is not one of its fields \(order_id\)"):

        class Misspelt(Event, topic="orders", key="id"):
            order_id: str


def test_an_abstract_event_needs_nothing() -> None:
    class Common(Event, abstract=True):
        order_id: str

    class Concrete(Common, topic="orders", key="order_id"):
        pass

    assert Concrete(order_id="1").order_id == "1"


def test_a_tombstone_needs_a_topic_held_twice() -> None:
    with pytest.raises(WiringError, match="tombstone, but topic 'orders' has no latest=True"):

        class Gone(Event, topic="orders", key="order_id", tombstone=True):
            order_id: str


def test_a_topic_name_is_one_that_every_log_can_hold() -> None:
    with pytest.raises(WiringError, match="a name is made of letters, digits"):
        Topic("my orders")


def test_a_partitioner_is_a_known_one() -> None:
    with pytest.raises(WiringError, match="unknown partitioner 'md5'; known are murmur2"):
        Topic("orders", partitioner="md5")


def test_one_handler_for_an_event() -> None:
    decider = orders()

    @decider.on(Asked)
    def first(_state: State, _event: Asked) -> list[Granted]:
        return []

    with pytest.raises(WiringError, match=r"order\.second: Asked is handled already, by first"):

        @decider.on(Asked)
        def second(_state: State, _event: Asked) -> list[Granted]:
            return []


def test_a_handler_has_its_deciders_key() -> None:
    with pytest.raises(WiringError, match="BySku has key 'sku', but decider order has key 'order_id'"):

        @orders().on(BySku)
        def misplaced(_state: State, _event: BySku) -> list[Granted]:
            return []


def test_a_handler_says_what_it_says() -> None:
    with pytest.raises(WiringError, match=r"order.single: write what it emits as its return type"):

        @orders().on  # type: ignore[arg-type]  # the mistake under test
        def single(_state: State, event: Asked) -> Granted:
            return Granted(order_id=event.order_id)

    with pytest.raises(WiringError, match=r"order.untold has no return type"):

        @orders().on
        def untold(_state: State, _event: Asked):  # type: ignore[no-untyped-def]  # the mistake under test
            return []


def test_a_handlers_events_are_those_of_its_second_parameter() -> None:
    decider = orders()

    @decider.on
    def grant(_state: State, event: Asked | Granted, _meta: Meta) -> list[Granted]:
        return [Granted(order_id=event.order_id)] if isinstance(event, Asked) else []

    assert decider.handlers.keys() == {Asked, Granted}
    assert decider.handlers[Asked] == Handler(grant, (Granted,), wants_meta=True)


def test_a_handler_that_emits_nothing_says_none() -> None:
    decider, seen = orders(), list[Event]()

    @decider.on
    def look(_state: State, event: Asked) -> None:
        seen.append(event)

    asked = Asked(order_id="1")
    assert decider.decide(State(), asked, META, lambda _said, _ordinal: META) == (State(), [])
    assert (decider.handlers[Asked].emits, seen) == ((), [asked])


def test_what_only_changes_the_state_is_followed() -> None:
    decider = orders()
    decider.follows(Asked, Granted)
    assert [handler.emits for handler in decider.handlers.values()] == [(), ()]
    assert decider.decide(State(), Asked(order_id="1"), META, lambda _said, _ordinal: META) == (State(), [])
    with pytest.raises(WiringError, match=r"order\.late: Asked is handled already, by follows"):

        @decider.on
        def late(_state: State, _event: Asked) -> None: ...

    with pytest.raises(WiringError, match=r"order\.follows: BySku has key 'sku'"):
        orders().follows(BySku)
    with pytest.raises(WiringError, match=r"order\.follows: <class 'str'> in its arguments is not an event"):
        orders().follows(str)  # type: ignore[arg-type]  # the mistake under test
    with pytest.raises(WiringError, match=r"order\.follows\(\) names no event: name the classes of events"):
        orders().follows()


def test_a_second_parameter_is_an_event() -> None:
    with pytest.raises(WiringError, match=r"order.bare: the events that it handles are read from .*event: EventA"):

        @orders().on
        def bare(_state: State, _event) -> list[Granted]:  # type: ignore[no-untyped-def]  # the mistake under test
            return []

    with pytest.raises(WiringError, match="<class 'str'> in its second parameter's type is not an event with a topic"):

        @orders().on  # type: ignore[type-var]  # the mistake under test
        def text(_state: State, _event: str) -> list[Granted]:
            return []


def test_a_handler_takes_what_it_is_registered_for() -> None:
    with pytest.raises(
        WiringError, match=r"order.half is registered for Granted, and .* does not take that: write `.on`"
    ):

        @orders().on(Asked, Granted)
        def half(_state: State, _event: Asked) -> list[Granted]:
            return []


def test_on_is_given_a_handler_or_events() -> None:
    with pytest.raises(WiringError, match=r"order.on\(\) names no event: write `@order.on`, without parentheses"):
        orders().on()  # type: ignore[call-overload]  # the mistake under test
    with pytest.raises(WiringError, match=r"order.on: <class 'str'> in its arguments is not an event with a topic"):
        orders().on(str)  # type: ignore[type-var]  # the mistake under test
    with pytest.raises(WiringError, match=r"'Asked' in its arguments is not an event"):
        orders().on("Asked")  # type: ignore[call-overload]  # the mistake under test


def test_a_handler_says_events() -> None:
    with pytest.raises(WiringError, match="<class 'str'> in its return type is not an event with a topic"):

        @orders().on(Asked)  # type: ignore[type-var]  # the mistake under test
        def texts(_state: State, _event: Asked) -> list[str]:
            return []


def test_a_handler_says_no_request() -> None:
    with pytest.raises(WiringError, match="Submitted is a request, and those come only from outside"):

        @orders().on(Asked)
        def resubmit(_state: State, event: Asked) -> list[Submitted]:
            return [Submitted(order_id=event.order_id)]


def test_a_handler_takes_state_event_and_perhaps_meta() -> None:
    with pytest.raises(WiringError, match="takes 1 arguments; expected 2, or 3 with Meta at the end"):

        @orders().on(Asked)  # type: ignore[arg-type]  # the mistake under test
        def short(_state: State) -> list[Granted]:
            return []


def test_an_annotation_names_things_that_exist() -> None:
    with pytest.raises(WiringError, match="its annotations name something that does not exist"):

        @orders().on(Asked)
        def unknown(_state: State, _event: Asked) -> "list[Nowhere]":  # type: ignore[name-defined]  # noqa: F821  the mistake under test
            return []


def test_an_effect_says_what_it_answers() -> None:
    with pytest.raises(WiringError, match="in its return type is not an event"):

        @orders().effect(Asked)
        async def call(_event: Asked) -> None: ...


def test_what_follows_when_nobody_answers_is_said_and_asks_nobody() -> None:
    async def ask_again(event: Asked) -> Granted:
        return Granted(order_id=event.order_id)

    with pytest.raises(WiringError, match=r"otherwise=ask_again is async: .* an effect of its own"):

        @orders().effect(Asked, otherwise=ask_again)
        async def call(event: Asked) -> Granted:
            return Granted(order_id=event.order_id)


def test_an_effect_is_async() -> None:
    with pytest.raises(WiringError, match="effect call is not async"):

        @orders().effect(Asked)
        def call(event: Asked) -> Granted:
            return Granted(order_id=event.order_id)


def test_a_state_is_frozen_and_has_defaults() -> None:
    @dataclass
    class Loose:
        count: int = 0

    @dataclass(frozen=True)
    class Demanding:
        count: int

    with pytest.raises(WiringError, match="must be a frozen dataclass"):
        Decider("order", state=Loose, key="order_id")
    with pytest.raises(WiringError, match="every field of state Demanding needs a default"):
        Decider("order", state=Demanding, key="order_id")


def test_two_evolves_are_refused() -> None:
    decider = orders()

    @decider.evolve
    def one(state: State, _event: Event) -> State:
        return state

    with pytest.raises(WiringError, match="has an evolve already: one"):

        @decider.evolve
        def two(state: State, _event: Event) -> State:
            return state


def test_a_deadline_has_one_handler() -> None:
    decider = orders()

    @decider.deadline
    def late(_state: State) -> datetime | None:
        return None

    @late.passed
    def first(_state: State) -> list[Never]:
        return []

    with pytest.raises(WiringError, match="deadline late has a handler already, first"):

        @late.passed
        def second(_state: State) -> list[Never]:
            return []


def handling(name: str, *event_types: type[Event]) -> "Decider[State]":
    decider: Decider[State] = Decider(name, state=State, key="order_id")
    for event_type in event_types:

        @decider.on(event_type)
        def quiet(_state: State, _event: Event) -> list[Never]:
            return []

    return decider


def test_a_services_topics_are_co_partitioned() -> None:
    with pytest.raises(WiringError, match=r"different partition counts \(asked has 8, narrow has 2\)"):
        Service("shop", deciders=[handling("order", Asked, Narrow)])


def test_names_are_unique() -> None:
    one = Service("one", deciders=[handling("order", Asked)])
    two = Service("two", deciders=[handling("order", Asked)])
    with pytest.raises(WiringError, match="two deciders are named order"):
        Choreography("shop", [one, two])


def test_a_topic_is_declared_once() -> None:
    class Other(Event, topic=Topic("asked", max_event_bytes=10), key="order_id"):
        order_id: str

    service = Service("one", deciders=[handling("order", Asked, Other)])
    with pytest.raises(WiringError, match="topic 'asked' is declared in two ways"):
        Choreography("shop", [service])
