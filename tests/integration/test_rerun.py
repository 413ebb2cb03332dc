"""A service's past run again: the same code says the same; other code differs just where it is other."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from eventlib import Event, EventLog, OutcomeUnknown, Runtime, open_log
from eventlib.codec.wire_format import FramedCodec
from eventlib.errors import ContractError, OwnershipLost, WiringError
from eventlib.log.base import Claim
from eventlib.log.memory import MemoryLog
from eventlib.log.record import Record
from eventlib.operations.reprocessing import dropping, follower, listing, metadata
from eventlib.operations.reprocessing.comparison import Difference
from eventlib.state.memory import MemoryStores
from tests.integration import test_runtime as small
from tests.integration.rerunning import (
    WHY,
    BasketSent,
    ChargeAsked,
    Code,
    GivenBack,
    Kept,
    Opened,
    Short,
    Stocked,
    Till,
    market,
    records,
    run_again,
    run_it_again,
    said,
    send,
    serving,
    settle,
    stock,
)


@pytest.fixture(params=["memory", "sqlite"])
async def opened(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Opened]:
    """Opens the same log again and again, also with other code."""
    if request.param == "sqlite":
        yield lambda choreography: open_log(f"sqlite:///{tmp_path}/log.db", choreography)
        return
    async with open_log("memory://", market(), read_only=True) as kept:  # each test says what is on it
        yield lambda choreography: small.reopened(kept, choreography)


def random_baskets(count: int, seed: int, skus: str = "ABCD") -> list[tuple[str, str]]:
    rng = random.Random(seed)
    return [(f"b{seed}-{n}", "".join(rng.choices(skus, k=rng.randint(1, 4)))) for n in range(count)]


async def busy_days(log: EventLog, seed: int = 1) -> None:
    """Let many baskets compete for a few units, some at once and some later."""
    await stock(log, A=15, B=20, C=8)
    async with serving(log) as runtime:
        for wave in range(4):
            await send(log, random_baskets(15, seed + wave))
            await asyncio.sleep(0.01 * wave)
        await runtime.idle()
        await stock(log, C=5)
        await send(log, random_baskets(15, seed + 9))
        await runtime.idle()


def by_decider(found: Difference) -> dict[str, tuple[int, int, int]]:
    return {each.decider: (each.missing, each.extra, each.other) for each in found.deciders}


async def units_left(log: EventLog, name: str) -> Counter[str]:
    """Return what has to be on each shelf, from what was said by a rerun: stocked - kept + given back."""
    left = Counter[str]()
    for each in await said(log, "stock"):
        if isinstance(each, Stocked):
            left[each.sku] += each.units
    for moved in [*await said_by_rerun(log, "answers", name), *await said_by_rerun(log, "stock", name)]:
        if isinstance(moved, Kept | GivenBack):
            left[moved.sku] += 1 if isinstance(moved, GivenBack) else -1
    return left


async def said_by_rerun(log: EventLog, topic: str, name: str = "again") -> list[Event | None]:
    return [log.decode(r.replace(topic=topic)) for r in await records(log, f"{name}.said.{topic}")]


async def shelves_of(log: EventLog, name: str) -> dict[str, int]:
    newest = {record.key: record for record in await records(log, f"{name}.changelog")}
    shelf = log.choreography.decider("shelf")
    found = dict[str, int]()
    for key, record in newest.items():
        if (key or b"").startswith(b"state/shelf/") and record.value:
            found[(key or b"").decode()[12:]] = log.codec.decode(shelf.state, record.value).left
    return found


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
        assert await said(log, "answers")
        assert not any(isinstance(each, Short) and each.sku in "AB" for each in await said(log, "answers"))
    async with opened(market()) as log:
        found = await run_it_again(log, "store")
        counts = by_decider(found)
        assert counts["shelf"][:2] == (0, 0), "each request is answered in its place, some of them otherwise"
        assert counts["shelf"][2] > 10
        assert {(each.before, each.after) for each in found.events if each.decider == "shelf"} == {("Kept", "Short")}
        shelves = await shelves_of(log, "again")
        assert min(shelves.values()) >= 0
        left = await units_left(log, "again")
        assert shelves == {sku: left[sku] for sku in shelves}


async def test_what_was_forgotten_is_said_and_heard(opened: Opened) -> None:
    async with opened(market(Code(gives_back=False))) as log:
        await busy_days(log)
    async with opened(market()) as log:
        found = await run_it_again(log, "store")
        assert by_decider(found)["basket"][1] > 3, "units are given back"
        shelves = await shelves_of(log, "again")
        left = await units_left(log, "again")
        assert shelves == {sku: left[sku] for sku in shelves}, "and their shelves have heard of it"
        assert min(shelves.values()) >= 0


async def test_an_effect_that_was_asked_for_takes_its_recorded_answer_and_another_stays_open(opened: Opened) -> None:
    async with opened(market(Code(spare=1))) as log:
        await stock(log, A=3)
        await send(log, [("1", "A")])
        await settle(log)
        await send(log, [("2", "A"), ("3", "A")])
        await settle(log)
        assert len(await records(log, "charges")) == 4, "two were charged, since one unit stays on the shelf"
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


async def test_a_deadline_that_the_service_did_not_have_passes_in_its_time(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "PATIENCE_MS", 20)
    async with opened(market()) as log:
        await stock(log, A=9)
        await settle(log)
        till = Till(is_closed=True)
        await send(log, [("slow", "A")])
        await until_asked(log, till)
        for name in beside(log, "slow"):  # what the task does afterwards shows that it was there all the time
            await asyncio.sleep(0.1)
            await send(log, [(name, "A")])
            await until_asked(log, till)
        till.is_closed = False
        await settle(log, till)
    async with opened(market(Code(reminds_after_s=0))) as log:
        found = await run_it_again(log, "store")
        reminders = [r for r in await records(log, "again.said.reminders") if r.subject == "slow"]
        assert len(reminders) == 1
        charged = next(r for r in await records(log, "charges") if r.type == "Charged" and r.subject == "slow")
        assert reminders[0].timestamp_ms < charged.timestamp_ms, "before it was answered"
        assert by_decider(found)["basket"][0] == 0
        again = await run_it_again(log, "store", "twice")
        assert by_decider(again) == by_decider(found), "each time the same"


async def test_a_deadline_that_was_called_off_while_the_service_was_away_does_not_pass(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "PATIENCE_MS", 20)
    code = Code(reminds_after_s=1)
    async with opened(market(code)) as log:
        await stock(log, A=9)
        await settle(log)
        till = SilentAtFirst(is_closed=True)
        await send(log, [("moved", "A")])
        await until_asked(log, till)
        async with serving(log, till):
            await send(log, [(beside(log, "moved")[0], "A")])
            while not await said(log, "closed"):
                await asyncio.sleep(0.01)
        await asyncio.sleep(1.1)
        await log.publish(BasketSent(basket="moved", lines=("A",)), idempotency_key="once more")
        till.is_closed = False
        await settle(log, till)
        if await said(log, "reminders"):
            pytest.skip("this machine was too slow to stop the service before the deadline")
        found = await run_it_again(log, "store")
        assert found.is_none, found


class SilentAtFirst(Till):
    """While it is closed, it answers all but the first request."""

    async def charge(self, key: str, cents: int) -> int:
        self.charges.setdefault(key, cents)
        if self.is_closed and key == next(iter(self.charges)):
            self.calls += 1
            raise OutcomeUnknown("nobody there")
        self.calls += 1
        return cents


def beside(log: EventLog, name: str) -> list[str]:
    """Return the names of two more baskets of the same task."""
    task_of = log.choreography.service("store").inputs[0].partition_of
    return [each for each in map(str, range(99)) if task_of(each.encode()) == task_of(name.encode())][:2]


async def until_asked(log: EventLog, till: Till) -> None:
    """Run the services until the outside is asked once more; it does not answer."""
    calls = till.calls
    async with serving(log, till):
        while till.calls == calls:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)  # and have read what they have said


async def test_up_to_a_time_it_knows_what_was_known_then(opened: Opened) -> None:
    async with opened(market()) as log:
        await stock(log, A=5)
        await send(log, [("1", "A")])
        await settle(log)
        until_ms = max(record.timestamp_ms for record in await records(log, "store.journal"))
        await asyncio.sleep(0.01)
        await send(log, [("2", "AA")])
        await settle(log)
        found = await run_it_again(log, "store", until_ms=until_ms)
        assert by_decider(found) == {"basket": (0, 0, 0), "shelf": (0, 0, 0)}
        assert found.not_yet == 2, "the shelf, and the second basket"
        assert await shelves_of(log, "again") == {"A": 4}
        with pytest.raises(ContractError, match="begun with another --since or --until"):
            await run_it_again(log, "store")


async def test_it_goes_on_with_a_service_that_goes_on(opened: Opened) -> None:
    async with opened(market()) as log:
        await stock(log, A=40, B=40)
        async with serving(log) as runtime:
            await send(log, random_baskets(10, 1))
            await runtime.idle()
            for turn in range(2, 5):
                await asyncio.gather(send(log, random_baskets(10, turn)), run_it_again(log, "store"))
            await runtime.idle()
            found = await run_it_again(log, "store")
            assert found.is_none, found


async def test_it_follows_until_it_is_stopped(opened: Opened) -> None:
    async with opened(market()) as log:
        await stock(log, A=40)
        await send(log, [("0", "A")])
        await settle(log)
        following = asyncio.create_task(run_again(log, MemoryStores(), follow=True))
        async with serving(log) as runtime:
            for number in range(1, 6):
                await send(log, [(str(number), "A")])
                await runtime.idle()
        async with asyncio.timeout(120):
            while len(await said_by_rerun(log, "closed")) < 6:
                await asyncio.sleep(0.02)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        assert (await run_it_again(log, "store")).is_none


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
            with pytest.raises(ContractError, match=r"begun by code .*, and this is other: .* --drop again"):
                await run_it_again(log, "store")
        await dropping.drop(log, service, "again")
        assert await listing.reruns(log) == []
        assert not [topic for topic in await log.port.topics() if topic.startswith("again")]
        with pytest.raises(ContractError, match=r"store has no rerun 'again' on this log \(it has none\)"):
            await dropping.drop(log, service, "again")
    async with opened(market()) as log:
        await run_again(log, stores)
        left = await units_left(log, "again")
        shelves = await shelves_of(log, "again")
        assert shelves == {sku: left[sku] for sku in shelves}, (
            "nothing is left of the first one, in no local store either"
        )


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
        before = {topic: await records(log, topic) for topic in topics}
        await run_it_again(log, "store")
        assert {topic: await records(log, topic) for topic in topics} == before


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
            sorted(r.astuple()[3:14] for r in await records(log, f"{name}.said.{topic}")) for name in ("whole", "cut")
        ]
        assert told[0] == told[1], topic
    newest = [{r.key: r.astuple()[5:] for r in await records(log, f"{name}.changelog")} for name in ("whole", "cut")]
    assert {**newest[0], b"position": None} == {**newest[1], b"position": None}
