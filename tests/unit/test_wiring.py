"""Wiring mistakes fail at import, with a sentence that says what to do."""

from dataclasses import dataclass
from datetime import datetime
from typing import Never

import pytest

from eventlib import Choreography, Decider, Event, Service, Topic, WiringError
from tests.apps.smallest import Asked, Count, Granted, orders


class Narrow(Event, topic=Topic("narrow", partitions=2), key="order_id"):
    order_id: str


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


def test_an_effect_is_a_coroutine_function_or_a_plain_one() -> None:
    @orders().effect(Asked)
    def call(event: Asked) -> Granted:
        return Granted(order_id=event.order_id)

    with pytest.raises(WiringError, match="effect answers yields: an effect answers once"):

        @orders().effect(Asked)
        def answers(event: Asked) -> Granted:  # type: ignore[misc]  # what is refused
            yield Granted(order_id=event.order_id)


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
    def one(state: Count, _event: Event) -> Count:
        return state

    with pytest.raises(WiringError, match="has an evolve already: one"):

        @decider.evolve
        def two(state: Count, _event: Event) -> Count:
            return state


def test_a_deadline_has_one_handler() -> None:
    decider = orders()

    @decider.deadline
    def late(_state: Count) -> datetime | None:
        return None

    @late.passed
    def first(_state: Count) -> list[Never]:
        return []

    with pytest.raises(WiringError, match="deadline late has a handler already, first"):

        @late.passed
        def second(_state: Count) -> list[Never]:
            return []


def handling(name: str, *event_types: type[Event]) -> "Decider[Count]":
    decider: Decider[Count] = Decider(name, state=Count, key="order_id")
    for event_type in event_types:

        @decider.on(event_type)
        def quiet(_state: Count, _event: Event) -> list[Never]:
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
