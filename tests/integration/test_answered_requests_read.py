"""Who reads what a key remembers of its requests finds the entries of the older ones too."""

from pathlib import Path

import pytest

from eventlib import EventLog, open_log
from eventlib.model.record import Record, key_text
from eventlib.operations.reprocessing.cutover import switch
from eventlib.operations.reprocessing.metadata import RerunSpec
from eventlib.operations.reprocessing.running import rerunning
from eventlib.queries.parked import parkings
from eventlib.queries.state import state_of
from eventlib.replay.key_history import key_history
from eventlib.runtime.keyed_state import KEPT_WITH_KEY, KeyMetadata, memory_of
from eventlib.runtime.processor import body_hash
from eventlib.runtime.records import REQUEST, STATE
from eventlib.state.memory import MemoryStores
from tests.apps.small_shop import make_shop, retry, settle, steps
from tests.integration.damaging import change
from tests.integration.pausing import ordered, run
from tests.integration.reopening import everything
from tests.operators import preview_retries

MANY = KEPT_WITH_KEY + 6


async def newest(log: EventLog) -> dict[str, Record]:
    """What the changelog has, by key."""
    found = {key_text(each): each for each in await everything(log, "orders.changelog")}
    return {key: each for key, each in found.items() if each.value is not None}


async def entries(log: EventLog) -> dict[str, Record]:
    return {key: each for key, each in (await newest(log)).items() if key.startswith(REQUEST)}


async def dropped(log: EventLog) -> list[str]:
    return [step.detail for step in await steps(log) if step.kind == "drop"]


async def remembered_as_before(log: EventLog) -> None:
    """Write what an earlier release kept of the requests of `a`: all of them in the key's own entry."""
    requests = [each for each in await everything(log, "orders.requests") if key_text(each) == "a"]
    memory = KeyMetadata(answered={each.event_id: body_hash(each) for each in requests})
    state = (await newest(log))[f"{STATE}order/a"]
    gone = [each.replace(offset=-1, value=None, headers=()) for each in (await entries(log)).values()]
    await log.port.append([state.replace(offset=-1, headers=memory.headers), *gone])


async def test_a_history_and_a_replay_know_the_entries_and_the_lists_of_an_earlier_release(tmp_path: Path) -> None:
    async with open_log(f"sqlite:///{tmp_path}/log.db", make_shop(set())) as log:
        decider = log.choreography.decider("order")
        await ordered(log, "a", *range(MANY))
        await settle(log, stores=MemoryStores())
        assert len(await entries(log)) == MANY - KEPT_WITH_KEY
        assert (await key_history(log, decider, "a")).doubt == ""
        assert (await state_of(log, "order", "a")).answered == MANY
        await remembered_as_before(log)
        assert (await key_history(log, decider, "a")).doubt == ""
        assert (await state_of(log, "order", "a")).answered == MANY
        await ordered(log, "a", 0, 1_000)
        await settle(log, stores=MemoryStores())
        assert await dropped(log) == ["duplicate"]
        assert len(memory_of((await newest(log))[f"{STATE}order/a"]).answered) == KEPT_WITH_KEY
        assert len(await entries(log)) == MANY + 1 - KEPT_WITH_KEY
        assert (await key_history(log, decider, "a")).doubt == ""


@pytest.mark.parametrize("what", ["value = x'00'", "value = x'00', key = x'b0'"])
async def test_a_damaged_entry_is_built_anew(tmp_path: Path, what: str, caplog: pytest.LogCaptureFixture) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    async with open_log(url, make_shop(set())) as log:
        await ordered(log, "a", *range(MANY))
        await settle(log, stores=MemoryStores())
        known = await entries(log)
    sql = f"UPDATE records SET {what} WHERE position = (SELECT max(position) FROM records WHERE key = CAST(? AS BLOB))"  # noqa: S608
    change(tmp_path / "log.db", sql, [*known][-1])
    async with open_log(url, make_shop(set())) as log:
        await ordered(log, "a", *range(MANY))
        await settle(log, stores=MemoryStores())
        assert "rebuilt from the journal" in caplog.text
        assert await dropped(log) == ["duplicate"] * MANY


async def test_a_preview_knows_that_what_waits_was_answered_long_ago() -> None:
    broken = set[str]()
    async with open_log("memory://", make_shop(broken)) as log:
        await ordered(log, "a", *range(MANY))
        await settle(log)
        broken.add("a")
        await ordered(log, "a", 1_000, 0)
        async with run(log) as runtime:
            await runtime.idle()
        broken.clear()
        (found,) = await preview_retries(log, await parkings(log))
        assert (found.prospect, found.handled, found.waiting) == ("is handled", 1, 2)
        await retry(log, "order", "a")
        await settle(log)
        assert await dropped(log) == ["duplicate"]


async def test_a_switch_to_a_rerun_takes_its_entries_over() -> None:
    async with open_log("memory://", make_shop(set())) as log:
        await ordered(log, "a", *range(MANY))
        await settle(log)
        known = await entries(log)
        await log.port.append([each.replace(offset=-1, value=None, headers=()) for each in known.values()])
        service = log.choreography.service("orders")
        async with rerunning(log, MemoryStores(), service, "again", RerunSpec("os:ada")) as again:
            await switch(again, "os:ada", runs_effects=False)
        assert {key: each.headers for key, each in (await entries(log)).items()} == {
            key: each.headers for key, each in known.items()
        }
        async with run(log) as runtime:
            await ordered(log, "a", 0)
            await runtime.idle()
        assert await dropped(log) == ["duplicate"]
