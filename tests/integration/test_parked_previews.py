"""What a preview says of a retry, an edit or a discard is what then happens; and it writes nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from eventlib import Choreography, Decider, Event, EventLog, Publication, Service, open_log
from eventlib.errors import ContractError
from eventlib.model.record import Record
from eventlib.operations.act import Desk
from eventlib.operations.parked_commands import event_with
from eventlib.operations.parked_preview import Preview
from eventlib.operations.pause_acts import Pause, Resume
from eventlib.operations.pausing import pause, resume
from eventlib.queries.parked import Parking, parkings
from eventlib.queries.pauses import PauseTarget
from eventlib.values import now_ms
from tests.apps.small_shop import Expired, Ordered, Outside, make_shop
from tests.handling import handle_all
from tests.integration.reopening import events, everything
from tests.operators import (
    preview_discards,
    preview_edit,
    preview_retries,
    request_discard,
    request_edit,
    request_retry,
)


async def contents(log: EventLog) -> Mapping[str, Sequence[Record]]:
    """All that stands on a log."""
    return {topic: await everything(log, topic) for topic in sorted(await log.port.topics())}


def facts(records: Sequence[Record]) -> list[tuple[object, ...]]:
    """What records say, but for their offsets and times, by key and in its order: keys are handled in any order."""
    ordered = sorted(records, key=lambda each: (each.subject or "", each.sequence or 0))
    return [(each.topic, each.partition, *each.astuple()[4:13]) for each in ordered]


async def previewed(log: EventLog, parking: Parking, act: str) -> Preview:
    before = await contents(log)
    if act == "edit":
        found = await preview_edit(log, parking, await event_with(log, parking, None, {"cents": 7}))
    elif act == "discard":
        (found,) = await preview_discards(log, [parking])
    else:
        (found,) = await preview_retries(log, [parking])
    assert await contents(log) == before, "a preview writes nothing"
    return found


async def done(log: EventLog, parking: Parking, act: str) -> None:
    if act == "edit":
        await request_edit(log, parking, await event_with(log, parking, None, {"cents": 7}), "ada")
    elif act == "discard":
        await request_discard(log, parking, "ada", "a test")
    else:
        await request_retry(log, parking, "ada")


async def settle(log: EventLog, outside: Outside) -> None:
    await handle_all(log, ports={"gateway": outside})


async def parked_log(log: EventLog, drawn: Random, broken: set[str], outside: Outside) -> None:
    """Park effects (of e and f), and keys with several inputs."""
    outside.refuses |= {"e", "f"}
    await log.publish_many([Ordered(order_id="e", cents=1), Ordered(order_id="f", cents=1, patience_s=3_600)])
    await settle(log, outside)
    broken |= {*"abcdf"}
    keys = [*"abcdf", *drawn.choices("abcdf", k=8)]
    late = [drawn.choice([None, 3_600]) for _ in keys]
    orders = [
        Ordered(order_id=key, cents=n, patience_s=each) for n, (key, each) in enumerate(zip(keys, late, strict=True))
    ]
    await log.publish_many([Publication(each, idempotency_key=f"{each.order_id} {each.cents}") for each in orders])
    await settle(log, outside)


@pytest.mark.parametrize("seed", range(8))
async def test_what_was_previewed_is_what_happens(seed: int) -> None:
    await what_was_previewed_happens("memory://", seed)


async def what_was_previewed_happens(url: str, seed: int) -> None:
    """Check previews of retries, edits and discards on a log that nobody else uses."""
    drawn, outside, broken = Random(seed), Outside(), set[str]()
    async with open_log(url, make_shop(broken)) as log:
        await parked_log(log, drawn, broken, outside)
        broken.clear()
        broken |= {each for each in "abcd" if drawn.random() < 0.3}  # not all is mended
        found = await parkings(log)
        acts = {
            each.name: drawn.choice(["retry", "discard"] if each.id else ["retry", "edit", "discard"]) for each in found
        }
        seen = {each.name: await previewed(log, each, acts[each.name]) for each in found}
        before, calls = await contents(log), len(outside.calls)
        for each in found:
            await done(log, each, acts[each.name])
        await settle(log, outside)
        happened = written(before, await contents(log))
        assert facts([record for each in seen.values() for record in each.records]) == facts(happened)
        asked = [each.parking.key for each in seen.values() for _ in each.requested]
        assert sorted(outside.calls[calls:]) == sorted(
            [*asked, *(each.key for each in found if each.id and acts[each.name] == "retry")]
        )
        still = {each.name: each for each in await parkings(log) if each.id is None}
        assert {name for name, each in seen.items() if each.prospect == "parks again"} == {*still}
        for name, preview in seen.items():
            assert acts[name] != "discard" or preview.prospect in {"is discarded", "parks again"}
            if preview.prospect == "parks again":
                left = preview.waiting - preview.handled - (acts[name] == "discard")
                assert (preview.reason, preview.traceback, left) == (
                    still[name].reason,
                    still[name].traceback,
                    still[name].waiting,
                )


def written(before: Mapping[str, Sequence[Record]], after: Mapping[str, Sequence[Record]]) -> list[Record]:
    """What the decider has emitted since, but for what follows: answers of effects, and deadlines."""
    new = [record for topic in ("notes", "charges") for record in after[topic] if record not in before[topic]]
    return [each for each in new if each.type not in {"Charged", "Uncharged"}]


async def test_a_deadline_that_fell_due_meanwhile_passes_next(monkeypatch: pytest.MonkeyPatch) -> None:
    broken, outside = set[str](), Outside(refuses={"a"})
    async with open_log("memory://", make_shop(broken)) as log:
        await log.publish(Ordered(order_id="a", cents=1, patience_s=3_600), idempotency_key="1")
        await settle(log, outside)
        broken.add("a")
        await log.publish(Ordered(order_id="a", cents=2), idempotency_key="2")
        await settle(log, outside)
        for each in ("operations.parked_preview", "operations.parked_commands", "runtime.runner"):
            monkeypatch.setattr(f"eventlib.{each}.now_ms", lambda: now_ms() + 2 * 3_600_000)
        (parking,) = [each for each in await parkings(log) if each.id is None]
        found = await previewed(log, parking, "discard")
        assert (found.prospect, found.emitted, found.overdue) == ("is discarded", [], [Expired(order_id="a")])
        await done(log, parking, "discard")
        await settle(log, outside)
        assert await events(log, "expiries") == found.overdue


async def test_what_is_paused_is_refused_as_the_act_is() -> None:
    broken, outside = {"a"}, Outside()
    async with open_log("memory://", make_shop(broken)) as log:
        await log.publish(Ordered(order_id="a", cents=1))
        await settle(log, outside)
        (parking,) = await parkings(log)
        await pause(log, PauseTarget.of(log, "orders"), "ada", "a test")
        found = [await previewed(log, parking, act) for act in ("retry", "discard", "edit")]
        assert {each.prospect for each in found} == {"unknown"}
        with pytest.raises(ContractError) as refused:
            await done(log, parking, "retry")
        assert {each.reason for each in found} == {str(refused.value)}


@pytest.mark.parametrize("broken", [set[str](), {"a"}])
async def test_a_resumed_key_does_what_its_preview_said(broken: set[str]) -> None:
    await a_resumed_key_does_what_its_preview_said("memory://", broken)


async def a_resumed_key_does_what_its_preview_said(url: str, broken: set[str]) -> None:
    """Check previews of a pause of a key and of its end, on a log that nobody else uses."""
    outside = Outside()
    async with open_log(url, make_shop(broken)) as log:
        target, desk = PauseTarget.of(log, "orders", key="a"), Desk(log, "")
        with pytest.raises(ContractError, match="is not paused"):
            await Resume(service="orders", key="a", dry_run=True).perform(desk)
        assert (await Pause(service="orders", key="a", dry_run=True).perform(desk)).released is None
        await pause(log, target, "ada", "a test")
        await log.publish_many([Publication(Ordered(order_id="a", cents=n), idempotency_key=f"{n}") for n in range(3)])
        await settle(log, outside)
        before = await contents(log)
        found = (await Resume(service="orders", key="a", dry_run=True).perform(desk)).released
        assert await contents(log) == before
        assert found is not None
        assert (found.prospect, found.handled) == (("parks again", 0) if broken else ("is handled", 3))
        await resume(log, target, "ada")
        await settle(log, outside)
        assert facts(found.records) == facts(written(before, await contents(log)))
        assert [each.reason for each in await parkings(log)] == ([found.reason] if broken else [])


def rates(quoted: type[Event], *, is_broken: bool) -> Choreography:
    """A service whose code is told apart by the class of what it emits."""
    quotes = Decider("quotes", state=Quotes, key="name")

    @quotes.on
    def quote(_state: Quotes, asked: Asked) -> list[quoted]:  # type: ignore[valid-type]
        if is_broken:
            raise KeyError(asked.name)
        return [quoted.model_validate({"name": asked.name})]

    return Choreography("rates", [Service("rates", deciders=[quotes])])


class Asked(Event, topic="asked", key="name"):
    name: str


@dataclass(frozen=True)
class Quotes:
    asked: int = 0


def quoted_v1() -> type[Event]:
    class Quoted(Event, topic="quoted", key="name", final=True):
        name: str

    return Quoted


def quoted_v2() -> type[Event]:
    class Quoted(Event, topic="quoted", key="name", final=True):
        name: str
        note: str = "new"

    return Quoted


async def test_a_preview_registers_no_schema_that_only_todays_code_has(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    async with open_log(url, rates(quoted_v1(), is_broken=True)) as log:
        await log.publish(Asked(name="MT"))
        await settle(log, Outside())
    async with open_log(url, rates(quoted_v2(), is_broken=False), read_only=True) as log:
        found = await previewed(log, (await parkings(log))[0], "retry")
    assert [each.model_dump() for each in found.emitted] == [{"name": "MT", "note": "new"}]
    async with open_log(url, rates(quoted_v2(), is_broken=False)) as log:
        await done(log, found.parking, "retry")
        await settle(log, Outside())
        assert facts(await everything(log, "quoted")) == facts(found.records)
