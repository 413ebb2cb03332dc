"""What is parked is listed, edited, tried again or given up: once each, and every reader of the past knows it."""

import asyncio
from typing import Never

import pytest

from eventlib import EventLog, Runtime
from eventlib.errors import ContractError
from eventlib.operations.command_status import pending_retries
from eventlib.operations.parked_commands import event_with
from eventlib.queries.parked import ParkedQuery, Parking, parkings, waiting_inputs
from eventlib.queries.sagas import find_saga
from eventlib.replay import history
from eventlib.replay.amendments import amendments_of
from eventlib.replay.point_in_time import snapshot_at
from eventlib.runtime.records import JournalEntry
from tests.apps.small_shop import Noted, Order, Ordered, Outside, make_shop, record_of, settle, steps
from tests.integration.reopening import Opened, events, everything
from tests.integration.rerunning import run_it_again
from tests.operators import request_discard, request_edit, request_retries, request_retry


async def ordered(log: EventLog, order_id: str, *cents: int) -> None:
    for each in cents:
        await log.publish(Ordered(order_id=order_id, cents=each), idempotency_key=f"{order_id} {each}")
    await settle(log)


async def only_parking(log: EventLog) -> Parking:
    (parking,) = await parkings(log)
    return parking


async def charges(log: EventLog) -> list[int]:
    return [event.cents for event in await events(log, "charges") if hasattr(event, "cents")]


async def amended(log: EventLog, key: str) -> list[tuple[str, str, str, str, str]]:
    found = await amendments_of(log, await find_saga(log, key))
    return [(each.kind, each.event_type, each.by, each.reason, each.outcome) for each in found]


async def acts(log: EventLog, service: str = "orders") -> list[tuple[str, str]]:
    journal = [log.codec.decode(JournalEntry, r.value or b"") for r in await everything(log, f"{service}.journal")]
    done = [step for entry in journal for step in entry.steps]
    return [(step.kind, step.detail) for step in done if step.kind in {"edit", "discard", "release", "refuse"}]


async def test_a_list_says_why_since_when_where_in_which_code(opened: Opened) -> None:
    async with opened(make_shop({"bad"})) as log:
        await ordered(log, "bad", 1, 2, 3)
        parking = await only_parking(log)
        assert (parking.decider, parking.key, parking.waiting) == ("order", "bad", 3)
        assert parking.reason == "RuntimeError: a bug in the handler"
        assert 'raise RuntimeError("a bug in the handler")' in parking.traceback
        assert "processor.py" not in parking.traceback
        (journal, *_) = [
            log.codec.decode(JournalEntry, r.value or b"") for r in await everything(log, "orders.journal")
        ]
        assert parking.code_version == journal.code_version
        assert [each.reason for each in await waiting_inputs(log, parking)][1:] == [
            "waits behind an earlier input of its key"
        ] * 2


async def test_a_discarded_input_is_never_handled_and_those_behind_it_are(opened: Opened) -> None:
    async with opened(make_shop({"bad"})) as log:
        await ordered(log, "bad", 1, 2, 3)
    async with opened(make_shop(set())) as log:
        await request_discard(log, await only_parking(log), "ada", "a test order")
        assert await amended(log, "bad") == [("discard", "Ordered", "ada", "a test order", "asked")]
        await settle(log)
        assert await amended(log, "bad") == [("discard", "Ordered", "ada", "a test order", "done")]
        assert await parkings(log) == []
        assert await charges(log) == [2, 3]
        assert await acts(log) == [("discard", "ada: a test order"), ("release", ""), ("release", "")]
        found = [step async for step in history(log, log.choreography.decider("order"), "bad")]
        (given_up,) = [step for step in found if step.kind == "discarded"]
        assert given_up.reason == "ada: a test order"
        assert given_up.input is not None
        assert given_up.input.event == Ordered(order_id="bad", cents=1)
        assert (await snapshot_at(log, "order", "bad", given_up.at)).waits == ""


async def test_two_who_mean_the_same_input_change_it_once(opened: Opened) -> None:
    async with opened(make_shop({"bad"})) as log:
        await ordered(log, "bad", 1, 2)
    async with opened(make_shop(set())) as log:
        parking = await only_parking(log)
        event = await event_with(log, parking, None, {"cents": 50})
        await request_discard(log, parking, "ada", "a test order")
        await request_edit(log, parking, event, "bob")
        await request_discard(log, parking, "cleo", "a test order")
        await request_retry(log, parking, "dan")
        await settle(log)
        assert await charges(log) == [2]
        assert [(by, outcome) for _, _, by, _, outcome in await amended(log, "bad")] == [
            ("ada", "done"),
            ("bob", "refused"),
            ("cleo", "refused"),
        ]
    async with opened(make_shop({"worse"})) as log:
        await ordered(log, "worse", 4, 5)
        parking = await only_parking(log)
        await request_discard(log, parking, "ada", "a test order")
        await request_discard(log, parking, "bob", "the same one")
        await settle(log)
        assert (await only_parking(log)).waiting == 1, "the second one meant what the first has given up"
        assert ("refuse", "another input stands first") in await acts(log)
        assert [each[-1] for each in await amended(log, "worse")] == ["done", "refused"]


async def test_what_was_asked_of_one_of_several_parked_keys_is_under_way_until_it_is_done(opened: Opened) -> None:
    keys = {"bad", "worse", "worst"}
    async with opened(make_shop(keys)) as log:
        for key in keys:
            await ordered(log, key, 1)
        for parking in await parkings(log):
            await request_discard(log, parking, "ada", "a test order")
        for key in keys:
            assert [each[-1] for each in await amended(log, key)] == ["asked"]


async def test_a_deadline_is_no_input(opened: Opened) -> None:
    def expire(*_: object) -> Never:
        raise RuntimeError("a bug in the deadline")

    async with opened(make_shop(set())) as log:
        decider = log.choreography.decider("order")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(decider, "answer_deadline", expire)
            await log.publish(Ordered(order_id="1", cents=1, patience_s=0.05), idempotency_key="1")
            gate = asyncio.Event()
            async with Runtime(log, ports={"gateway": Outside(gate=gate)}), asyncio.timeout(120):
                while not await parkings(log):
                    await asyncio.sleep(0.02)
                gate.set()
        parking = await only_parking(log)
        assert parking.reason == "expires_at: RuntimeError: a bug in the deadline"
        with pytest.raises(ContractError, match="is a deadline of order 1, not an input"):
            await request_discard(log, parking, "ada", "a test order")


async def test_a_discarded_effect_has_no_answer(opened: Opened) -> None:
    outside = Outside(refuses={"1", "2"})
    async with opened(make_shop(set())) as log:
        await log.publish(Ordered(order_id="1", cents=1))
        await log.publish(Ordered(order_id="2", cents=1))
        await settle(log, outside)
        found = {each.key: each for each in await parkings(log)}
        with pytest.raises(ContractError, match="it cannot be edited"):
            await event_with(log, found["1"], None, {"cents": 2})
        outside.refuses.clear()
        await request_discard(log, found["1"], "ada", "the customer is gone")
        await request_discard(log, found["1"], "ada", "the customer is gone")
        await request_retry(log, found["2"], "ada")
        await settle(log, outside)
        assert await parkings(log) == []
        assert sorted(outside.calls) == ["1", "2", "2"]
        found_steps = [step async for step in history(log, log.choreography.decider("order"), "1")]
        assert [(step.kind, step.reason) for step in found_steps][-1] == ("discarded", "ada: the customer is gone")
        assert (await amended(log, "1"))[0][2:] == ("ada", "the customer is gone", "done")


async def test_those_that_are_meant_and_those_that_are_asked_for_already(opened: Opened) -> None:
    async with opened(make_shop({"a1", "a2", "b1"})) as log:
        for order_id in ("a1", "a2", "b1"):
            await log.publish(Ordered(order_id=order_id, cents=1))
        await settle(log)
        bug = ParkedQuery.of(log, ["orders"], ["order"], "bug")
        found = await parkings(log, wanted=bug)
        assert {each.key for each in found} == {"a1", "a2", "b1"}
        assert await parkings(log, wanted=ParkedQuery.of(log, [], [], "^KeyError")) == []
        with pytest.raises(ContractError, match="is no regular expression"):
            ParkedQuery.of(log, [], [], "(")
        await request_retries(log, found[:2], "ada")
        assert set(await pending_retries(log, found)) == {each.name for each in found[:2]}
        await settle(log)
        assert await pending_retries(log, found) == {}


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
