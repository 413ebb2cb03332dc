"""A service's past run again, from its name to its end: other code differs just where it is other."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress

import pytest

from eventlib import EventLog, Runtime, open_log
from eventlib.codec.wire_format import FramedCodec
from eventlib.errors import ContractError, OwnershipLost, WiringError
from eventlib.log.base import Claim
from eventlib.log.memory import MemoryLog
from eventlib.model.record import Record
from eventlib.operations.reprocessing import follower, listing, metadata
from eventlib.state.memory import MemoryStores
from tests.apps import small_shop as small
from tests.apps.market import ChargeAsked, Code, Kept, Short, market
from tests.integration.reopening import Opened, events, everything
from tests.integration.rerunning import (
    WHY,
    busy_days,
    by_decider,
    check_shelves,
    run_again,
    run_it_again,
    said_by_rerun,
    send,
    settle,
    stock,
)


async def test_the_same_code_says_and_knows_the_same_though_tasks_raced(opened: Opened) -> None:
    async with opened(market()) as log:
        await busy_days(log)
        for service in ("store", "mail"):
            found = await run_it_again(log, service, f"{service}-again")
            assert found.is_none, found
            assert all(each.keys for each in found.deciders)


async def test_the_same_code_does_the_same_with_all_that_can_happen(opened: Opened) -> None:
    """Parked keys that are tried again, duplicates, deadlines, lost and final answers, restarts."""
    broken, outside = {"bad"}, small.Outside(fails={"2": 99, "3": 1}, refuses={"4"})
    async with opened(small.make_shop(broken)) as log:
        for turn in range(3):
            orders = [("bad", f"bad/{turn % 2}"), *((str(n), f"{turn}/{n}") for n in range(12))]
            for order_id, key in orders:
                patience_s = 0.05 if key[-1] in "147" else None
                order = small.Ordered(order_id=order_id, cents=turn, patience_s=patience_s)
                await log.publish(order, idempotency_key=key)
            async with Runtime(log, ports={"gateway": outside}) as runtime, asyncio.timeout(120):
                await asyncio.sleep(0.1)
                await runtime.idle()
            await small.retry(log, "order", "bad")
            if turn == 1:
                broken.clear()
        broken.add("bad")
        found = await run_it_again(log, "orders")
        assert {each.decider: each.states for each in found.deciders} == {"order": 1}, (
            "the mended key was mended by code"
        )
        broken.clear()
        found = await run_it_again(log, "orders", "mended")
        assert by_decider(found) == {"order": (0, 0, 0)}
        assert found.deciders[0].alike > 70
        assert not found.states


async def test_a_shelf_that_did_not_count_is_put_right(opened: Opened) -> None:
    async with opened(market(Code(counts=False))) as log:
        await busy_days(log)
        assert await events(log, "answers")
        assert not any(isinstance(each, Short) and each.sku in "AB" for each in await events(log, "answers"))
    async with opened(market()) as log:
        found = await run_it_again(log, "store")
        counts = by_decider(found)
        assert counts["shelf"][:2] == (0, 0), "each request is answered in its place, some of them otherwise"
        assert counts["shelf"][2] > 10
        assert {(each.before, each.after) for each in found.events if each.decider == "shelf"} == {("Kept", "Short")}
        await check_shelves(log, "again")


async def test_what_was_forgotten_is_said_and_heard(opened: Opened) -> None:
    async with opened(market(Code(gives_back=False))) as log:
        await busy_days(log)
    async with opened(market()) as log:
        found = await run_it_again(log, "store")
        assert by_decider(found)["basket"][1] > 3, "units are given back"
        await check_shelves(log, "again")  # they have heard of it


async def test_an_effect_that_was_asked_for_takes_its_recorded_answer_and_another_stays_open(opened: Opened) -> None:
    async with opened(market(Code(spare=1))) as log:
        await stock(log, A=3)
        await send(log, [("1", "A")])
        await settle(log)
        await send(log, [("2", "A"), ("3", "A")])
        await settle(log)
        assert len(await everything(log, "charges")) == 4, "two were charged, since one unit stays on the shelf"
    async with opened(market(Code(price_cents=90))) as log:
        found = await run_it_again(log, "store")
        (open_one,) = found.requested
        assert (open_one.decider, open_one.request) == ("basket", "ChargeAsked")
        prices = [each for each in found.events if each.before == each.after == "ChargeAsked"]
        assert [[(c.path, c.before, c.after) for c in each.changes] for each in prices] == [[("cents", 100, 90)]] * 2
        asked = [e for e in await said_by_rerun(log, "charges") if isinstance(e, ChargeAsked)]
        assert {event.cents for event in asked} == {90}
        assert len(asked) == 3


async def test_a_key_that_only_the_rerun_cannot_handle_is_named(opened: Opened) -> None:
    async with opened(market()) as log:
        await stock(log, A=9)
        await send(log, [("good", "A"), ("bad", "AA")])
        await settle(log)
    async with opened(market(Code(raises_for="bad"))) as log:
        found = await run_it_again(log, "store")
        (parked,) = found.parked
        assert (parked.decider, parked.key, parked.reason) == ("basket", "bad", "RuntimeError: a bug in the handler")
        assert {each.key for each in found.events} == {"bad", "A"}
        assert by_decider(found)["basket"] == (5, 0, 0)


async def test_a_key_that_was_parked_is_handled_in_its_turn(opened: Opened) -> None:
    async with opened(market(Code(raises_for="bad"))) as log:
        await stock(log, A=1)
        await settle(log)
        await send(log, [("bad", "A")])
        await settle(log)
        await send(log, [("good", "A")])
        await settle(log)
    async with opened(market()) as log:
        found = await run_it_again(log, "store")
        assert not found.parked
        answers = {getattr(e, "basket", ""): type(e) for e in await said_by_rerun(log, "answers")}
        assert answers == {"bad": Kept, "good": Short}, "who came first has the unit"


async def test_of_two_who_run_it_at_once_the_later_one_does(opened: Opened) -> None:
    async with opened(market()) as log:
        await busy_days(log)
        two = [run_it_again(log, "store"), run_it_again(log, "store")]
        done = await asyncio.gather(*two, return_exceptions=True)
        lost = [each for each in done if isinstance(each, OwnershipLost)]
        assert len(lost) <= 1
        assert (await run_it_again(log, "store")).is_none


async def test_what_is_thrown_away_is_gone_and_can_be_begun_anew(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = MemoryStores()
    async with opened(market(Code(counts=False))) as log:
        await busy_days(log)
        service = log.choreography.service("store")
        await run_again(log, stores)
        assert [(each.name, each.note.why, each.switched) for each in await listing.reruns(log)] == [("again", WHY, 0)]
        with monkeypatch.context() as patched:
            patched.setattr(metadata, "code_version", lambda _: "other")
            with pytest.raises(
                ContractError, match=r"begun by code .*, and this is other: .* `eventlib rerun drop store again`"
            ):
                await run_it_again(log, "store")
        await listing.drop(log, service, "again")
        assert await listing.reruns(log) == []
        assert not [topic for topic in await log.port.topics() if topic.startswith("again")]
        with pytest.raises(ContractError, match=r"store has no rerun 'again' on this log \(it has none\)"):
            await listing.drop(log, service, "again")
    async with opened(market()) as log:
        await run_again(log, stores)
        await check_shelves(log, "again")  # nothing is left of the first one, in no local store either


async def test_names_that_are_taken_are_refused(opened: Opened) -> None:
    async with opened(market()) as log:
        await stock(log, A=1)
        await settle(log)
        for name, why in (("mail", "there is a topic mail.changelog"), ("Store", "a name is small letters")):
            with pytest.raises(WiringError, match=why):
                await run_it_again(log, "store", name)
        await run_it_again(log, "store")
        with pytest.raises(WiringError, match="again is a rerun of store"):
            await run_it_again(log, "mail")


async def test_a_service_that_never_ran_has_no_past() -> None:
    async with open_log("memory://", market()) as log:
        with pytest.raises(ContractError, match="store has never run on this log"):
            await run_it_again(log, "store")


async def test_the_service_says_and_does_nothing_for_it(opened: Opened) -> None:
    async with opened(market()) as log:
        await busy_days(log)
        topics = [topic.name for topic in log.choreography.topics]
        before = {topic: await everything(log, topic) for topic in topics}
        await run_it_again(log, "store")
        assert {topic: await everything(log, topic) for topic in topics} == before


class Interrupted(Exception):
    """The end of a process, as seen from within."""


class Dying(MemoryLog):
    """A log on which a rerun named `cut` dies at some append: before or after it, nobody knows."""

    appends_left = 0

    async def append(self, records: Sequence[Record], claim: Claim | None = None) -> list[int]:
        dies = claim is not None and claim.service == "cut" and self.appends_left == 0
        if claim is not None and claim.service == "cut":
            self.appends_left -= 1
        if dies and len(records) % 2:
            raise Interrupted
        offsets = await super().append(records, claim)
        if dies:
            raise Interrupted
        return offsets


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (Code(), Code()),
        (Code(counts=False), Code()),
        (Code(gives_back=False), Code(spare=1)),
        (Code(), Code(reminds_after_s=0.002)),
        (Code(reminds_after_s=0.01), Code(reminds_after_s=0.01)),
    ],
)
async def test_wherever_it_is_interrupted_it_comes_to_the_same_end(
    old: Code, new: Code, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "PATIENCE_MS", 5)
    port, rng = Dying(), random.Random(repr(new))
    first = EventLog(port, FramedCodec(port), market(old))
    await first.prepare()
    await busy_days(first, seed=len(repr(old)))
    log = EventLog(port, FramedCodec(port), market(new))
    await log.prepare()
    found = await run_it_again(log, "store", "whole")
    assert found.is_none or old != new, found
    lives, stores = 0, MemoryStores()
    while True:
        port.appends_left, lives = rng.randint(0, 40), lives + 1
        stores = stores if rng.random() < 0.5 else MemoryStores()  # the machine's, or another machine's
        with suppress(Interrupted):
            await run_again(log, stores, "cut")
            break
    assert lives > 3
    for topic in ("answers", "stock", "charges", "closed", "reminders"):
        told = [
            sorted(r.astuple()[3:14] for r in await everything(log, f"{name}.said.{topic}"))
            for name in ("whole", "cut")
        ]
        assert told[0] == told[1], topic
    newest = [{r.key: r.astuple()[5:] for r in await everything(log, f"{name}.changelog")} for name in ("whole", "cut")]
    assert {**newest[0], b"position": None} == {**newest[1], b"position": None}
