"""Handlers that cannot be wired fail at import: their events, answers and arguments are read from their annotations."""

from datetime import UTC, datetime

import pytest

from eventlib import Event, Meta, WiringError
from eventlib.model.handler import Handler
from tests.apps.smallest import Asked, Count, Granted, Said, orders

META = Meta(id="1", recorded_at=datetime(2026, 1, 31, tzinfo=UTC))


def test_one_handler_for_an_event() -> None:
    decider = orders()

    @decider.on(Asked)
    def first(_state: Count, _event: Asked) -> list[Granted]:
        return []

    with pytest.raises(WiringError, match=r"order\.second: Asked is handled already, by first"):

        @decider.on(Asked)
        def second(_state: Count, _event: Asked) -> list[Granted]:
            return []


def test_a_handler_has_its_deciders_key() -> None:
    with pytest.raises(WiringError, match="Said has key 'key', but decider order has key 'order_id'"):

        @orders().on(Said)
        def misplaced(_state: Count, _event: Said) -> list[Granted]:
            return []


def test_a_handler_says_what_it_says() -> None:
    with pytest.raises(WiringError, match=r"order.single: write what it emits as its return type"):

        @orders().on  # type: ignore[arg-type]  # the mistake under test
        def single(_state: Count, event: Asked) -> Granted:
            return Granted(order_id=event.order_id)

    with pytest.raises(WiringError, match=r"order.untold has no return type"):

        @orders().on
        def untold(_state: Count, _event: Asked):  # type: ignore[no-untyped-def]  # the mistake under test
            return []


def test_a_handlers_events_are_those_of_its_second_parameter() -> None:
    decider = orders()

    @decider.on
    def grant(_state: Count, event: Asked | Granted, _meta: Meta) -> list[Granted]:
        return [Granted(order_id=event.order_id)] if isinstance(event, Asked) else []

    assert decider.handlers.keys() == {Asked, Granted}
    assert decider.handlers[Asked] == Handler(grant, (Granted,), wants_meta=True)


def test_a_handler_that_emits_nothing_says_none() -> None:
    decider, seen = orders(), list[Event]()

    @decider.on
    def look(_state: Count, event: Asked) -> None:
        seen.append(event)

    asked = Asked(order_id="1")
    assert decider.decide(Count(), asked, META, lambda _said, _ordinal: META) == (Count(), [])
    assert (decider.handlers[Asked].emits, seen) == ((), [asked])


def test_what_only_changes_the_state_is_followed() -> None:
    decider = orders()
    decider.follows(Asked, Granted)
    assert [handler.emits for handler in decider.handlers.values()] == [(), ()]
    assert decider.decide(Count(), Asked(order_id="1"), META, lambda _said, _ordinal: META) == (Count(), [])
    with pytest.raises(WiringError, match=r"order\.late: Asked is handled already, by follows"):

        @decider.on
        def late(_state: Count, _event: Asked) -> None: ...

    with pytest.raises(WiringError, match=r"order\.follows: Said has key 'key'"):
        orders().follows(Said)
    with pytest.raises(WiringError, match=r"order\.follows: <class 'str'> in its arguments is not an event"):
        orders().follows(str)  # type: ignore[arg-type]  # the mistake under test
    with pytest.raises(WiringError, match=r"order\.follows\(\) names no event: name the classes of events"):
        orders().follows()


def test_a_second_parameter_is_an_event() -> None:
    with pytest.raises(WiringError, match=r"order.bare: the events that it handles are read from .*event: EventA"):

        @orders().on
        def bare(_state: Count, _event) -> list[Granted]:  # type: ignore[no-untyped-def]  # the mistake under test
            return []

    with pytest.raises(WiringError, match="<class 'str'> in its second parameter's type is not an event with a topic"):

        @orders().on  # type: ignore[type-var]  # the mistake under test
        def text(_state: Count, _event: str) -> list[Granted]:
            return []


def test_a_handler_takes_what_it_is_registered_for() -> None:
    with pytest.raises(
        WiringError, match=r"order.half is registered for Granted, and .* does not take that: write `.on`"
    ):

        @orders().on(Asked, Granted)
        def half(_state: Count, _event: Asked) -> list[Granted]:
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
        def texts(_state: Count, _event: Asked) -> list[str]:
            return []


def test_a_handler_says_no_request() -> None:
    with pytest.raises(WiringError, match="Said is a request, and those come only from outside"):

        @orders().on(Asked)
        def resubmit(_state: Count, event: Asked) -> list[Said]:
            return [Said(key=event.order_id)]


def test_a_handler_takes_state_event_and_perhaps_meta() -> None:
    with pytest.raises(WiringError, match="takes 1 arguments; expected 2, or 3 with Meta at the end"):

        @orders().on(Asked)  # type: ignore[arg-type]  # the mistake under test
        def short(_state: Count) -> list[Granted]:
            return []


def test_an_annotation_names_things_that_exist() -> None:
    with pytest.raises(WiringError, match="its annotations name something that does not exist"):

        @orders().on(Asked)
        def unknown(_state: Count, _event: Asked) -> "list[Nowhere]":  # type: ignore[name-defined]  # noqa: F821  the mistake under test
            return []
