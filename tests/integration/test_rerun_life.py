"""A rerun from its name to its end: refused, interrupted, run by two at once, and thrown away; its service notices nothing."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress

import pytest

from eventlib import EventLog, open_log
from eventlib.codec.wire_format import FramedCodec
from eventlib.errors import ContractError, OwnershipLost, WiringError
from eventlib.log.base import Claim
from eventlib.log.memory import MemoryLog
from eventlib.model.record import Record
from eventlib.operations.reprocessing import dropping, follower, listing, metadata
from eventlib.state.memory import MemoryStores
from tests.apps.market import Code, market
from tests.integration.reopening import Opened, everything
from tests.integration.rerunning import WHY, busy_days, run_again, run_it_again, settle, shelves_of, stock, units_left


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
