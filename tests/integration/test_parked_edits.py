"""A parked input is handled with other data: once, in its turn, and every reader of the past knows it."""

import pytest

from eventlib.errors import ContractError
from eventlib.operations.parked_commands import event_with
from eventlib.queries.parked import parkings, waiting_inputs
from eventlib.replay import history
from tests.apps.small_shop import Noted, Order, Ordered, make_shop, record_of, settle, steps
from tests.integration.parking import acts, amended, charges, only_parking, ordered
from tests.integration.reopening import Opened, everything
from tests.integration.rerunning import run_it_again
from tests.operators import request_discard, request_edit, request_retry


async def test_an_edited_input_is_handled_with_its_new_data_and_then_those_behind_it(opened: Opened) -> None:
    async with opened(make_shop({"bad"})) as log:
        await ordered(log, "bad", 1, 2)
    async with opened(make_shop(set())) as log:
        parking = await only_parking(log)
        event = await event_with(log, parking, None, {"cents": 50})
        await request_edit(log, parking, event, "ada", "a typo")
        await settle(log)  # and a replay finds no difference
        assert await parkings(log) == []
        assert await charges(log) == [50, 2]
        assert await acts(log) == [("edit", "ada: a typo"), ("release", "")]
        asked = await everything(log, "orders.requests")
        notes = await everything(log, "notes")
        assert [note.causation_id for note in notes] == [request.id for request in asked], (
            "what follows names the input"
        )
        (control,) = await everything(log, "orders.control")
        assert control.causation_id == asked[0].id
        found = [step async for step in history(log, log.choreography.decider("order"), "bad")]
        (edited,) = [step for step in found if step.edited]
        assert (edited.kind, edited.edited, edited.was_parked) == ("handled", "ada: a typo", True)
        assert edited.input is not None
        assert edited.input.event == Ordered(order_id="bad", cents=50)
        assert edited.input.record.offset == asked[0].offset
        assert edited.after == Order(count=1)
        assert await amended(log, "bad") == [("edit", "Ordered", "ada", "a typo", "done")]


async def test_who_repeats_an_edited_request_is_known(opened: Opened) -> None:
    async with opened(make_shop({"bad"})) as log:
        await ordered(log, "bad", 1)
    async with opened(make_shop(set())) as log:
        parking = await only_parking(log)
        await request_edit(log, parking, await event_with(log, parking, None, {"cents": 50}), "ada")
        await settle(log)
        await ordered(log, "bad", 1)
        assert [step.detail for step in await steps(log) if step.kind == "drop"] == ["duplicate"]


async def test_an_edit_that_does_not_help_is_kept_for_the_next_retry(opened: Opened) -> None:
    async with opened(make_shop({"bad"})) as log:
        await ordered(log, "bad", 1, 2)
        parking = await only_parking(log)
        await request_edit(log, parking, await event_with(log, parking, None, {"cents": 50}), "ada", "a typo")
        await settle(log)
        parking = await only_parking(log)
        (first, _) = await waiting_inputs(log, parking)
        assert (parking.waiting, first.edited_by, first.reading.value) == (
            2,
            "ada: a typo",
            Ordered(order_id="bad", cents=50),
        )
    async with opened(make_shop(set())) as log:
        await request_retry(log, parking, "bob")
        await settle(log)
        assert await charges(log) == [50, 2]
        assert [kind for kind, _ in await acts(log)] == ["edit", "edit", "release"]


async def test_what_cannot_be_decoded_is_given_its_data(opened: Opened) -> None:
    async with opened(make_shop(set())) as log:
        garbled = record_of(log, Ordered(order_id="bad", cents=1)).replace(value=b"\x89PNG")
        await log.port.append([garbled])
        await settle(log)
        parking = await only_parking(log)
        with pytest.raises(ContractError, match="give all of its data"):
            await event_with(log, parking, None, {"cents": 5})
        event = await event_with(log, parking, {"order_id": "bad", "cents": 5}, {})
        await request_edit(log, parking, event, "ada")
        await settle(log)
        assert await charges(log) == [5]


async def test_an_edit_that_does_not_fit_is_refused_before_anything_is_written(opened: Opened) -> None:
    async with opened(make_shop({"bad"})) as log:
        await ordered(log, "bad", 1)
        parking = await only_parking(log)
        for data, changes, sentence in [
            (None, {"cents": "much"}, "Ordered does not fit: field cents"),
            (None, {"colour": "red"}, "Ordered does not fit: field colour"),
            ([1], {}, "an event is an object of fields"),
            ({"order_id": "bad"}, {}, "Ordered does not fit: field cents"),
        ]:
            with pytest.raises(ContractError, match=sentence):
                await event_with(log, parking, data, changes)
        with pytest.raises(ContractError, match="an input keeps its key"):
            await request_edit(log, parking, await event_with(log, parking, None, {"order_id": "other"}), "ada")
        with pytest.raises(ContractError, match="order handles no Noted from"):
            await request_edit(log, parking, Noted(order_id="bad", count=1), "ada")
        with pytest.raises(ContractError, match="give a reason"):
            await request_discard(log, parking, "ada", "  ")
        assert await everything(log, "orders.control") == []


async def test_a_rerun_takes_edits_and_discards_where_the_service_did(opened: Opened) -> None:
    async with opened(make_shop(set())) as log:
        for order_id in ("edited", "given up"):
            garbled = record_of(log, Ordered(order_id=order_id, cents=1)).replace(value=b"\x89PNG")
            await log.port.append([garbled])
            await ordered(log, order_id, 2)
        found = {each.key: each for each in await parkings(log)}
        event = await event_with(log, found["edited"], {"order_id": "edited", "cents": 5}, {})
        await request_edit(log, found["edited"], event, "ada")
        await request_discard(log, found["given up"], "ada", "nobody knows what it was")
        await settle(log)
        assert sorted(await charges(log)) == [2, 2, 5]
        differs = await run_it_again(log, "orders")
        assert differs.is_none, differs
        assert await acts(log, "again") == await acts(log)
