"""Sinks, webhooks, projections, tails and imports name what was gone before they read it."""

import logging
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from eventlib import EventLog, Publication, open_log
from eventlib.cli._common.metrics import webhooks_snapshot
from eventlib.errors import ContractError, TailLost
from eventlib.log.base import TopicPartition
from eventlib.model.record import Record
from eventlib.queries.projection import Projection
from eventlib.queries.projection_file import View
from eventlib.queries.stream import tail
from eventlib.sinks.consuming import Consumption, dropped_before
from services import shop
from services.importing.files import Source
from services.importing.intake import Intake
from services.importing.watching import watching
from services.order.events import OrderCompleted
from tests.integration.hooking import delivering, until_status
from tests.integration.test_losses import HEARD, hear, log
from tests.waiting import until
from tests.webhook_receiver import receiving

__all__ = ["log"]  # the fixture
PLACE = "heard", 0


class Keeping(Consumption):
    """Keeps in memory what was applied, and how far."""

    has_parked = False
    applied = 0

    async def take_over(self, begins: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {**begins, **self.positions}

    async def apply(self, records: Sequence[Record], offsets: Mapping[TopicPartition, int]) -> None:
        assert offsets
        self.applied += len(records)

    async def retry(self) -> None:
        """Nothing is parked."""

    def remedy(self, topic_partition: TopicPartition, start: int) -> str:
        return f"set {topic_partition[0]} to {start}"


async def drop(log: EventLog, unread: int = 5) -> None:
    """Let retention drop what is published now."""
    await hear(log, unread, ago=True)
    await log.port.compact()
    await hear(log, 1)


@pytest.fixture
async def keeping(log: EventLog) -> Keeping:
    await log.prepare()
    await hear(log, 2, ago=True)
    keeping = Keeping(log, "the keeper", [HEARD], from_now=False)
    await keeping.begin([0])
    while keeping.applied < 2:
        await keeping.step()
    return keeping


async def test_a_sink_that_runs_stands_still_before_what_was_dropped(log: EventLog, keeping: Keeping) -> None:
    await drop(log)
    assert await dropped_before(log.port, [HEARD], keeping.positions) == {PLACE: 5}
    named = "the keeper: retention has dropped heard/0/2 up to 7 before it was applied. .*set heard to 7"
    with pytest.raises(ContractError, match=named):
        await keeping.step()
    with pytest.raises(ContractError, match=named):  # and when it is started again
        await keeping.begin([0])
    assert keeping.applied == 2
    await keeping.end()


async def test_a_sink_that_runs_stands_still_when_the_topic_has_lost_its_end(keeping: Keeping) -> None:
    assert keeping._reader is not None  # noqa: SLF001  as if the log had lost its end
    keeping._reader.seek(PLACE, 9)  # noqa: SLF001
    with pytest.raises(TailLost, match=r"heard/0 of .* ends at 2, but the keeper has seen it up to 9"):
        await keeping.step()
    await keeping.end()


@pytest.mark.usefixtures("hook_secret")
async def test_a_webhook_sends_nothing_behind_a_loss_and_its_status_and_metric_say_so(
    log: EventLog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await log.prepare()
    await hear(log, 2, ago=True)
    async with receiving() as receiver:
        path = tmp_path / "hooks.toml"
        path.write_text(
            f'[subscribers.one]\nurl = "{receiver.url}"\nevents = ["Heard"]\nsecrets = ["env:HOOK_SECRET"]\nprivate = true\n'
            'begin = "start"\n'
        )
        async with delivering(log, path):
            await until_status(log, path, lag=0)
        await drop(log)
        sent = len(receiver.taken)
        async with delivering(log, path) as runner:
            await until(lambda: "stopped, and will be tried again" in caplog.text)
            found = await until_status(log, path, lag=6)
            seen = await webhooks_snapshot(runner, log)
    assert "retention has dropped heard/0/2 up to 7 before it was applied" in caplog.text
    assert found.lost == ["heard/0: offsets 2 to 6"]
    assert seen.values["eventlib.webhook.lost"]["one",] == 1
    assert len(receiver.taken) == sent


def note(db: sqlite3.Connection, record: Record, _event: Any) -> None:
    """Count what was read."""
    db.execute("INSERT INTO heard VALUES (?)", (record.offset,))


async def test_a_projection_warns_of_what_it_could_not_read_and_counts_it(
    log: EventLog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    view = View("heard", topics=["heard"], tables="CREATE TABLE heard (place INTEGER)", apply=note)
    await log.prepare()
    await hear(log, 2, ago=True)
    async with Projection(log, view, tmp_path / "view.db") as projection:
        assert await projection.caught_up(60)
        assert not projection.lost
    await drop(log)
    async with Projection(log, view, tmp_path / "view.db") as projection:
        assert await projection.caught_up(60)
        assert projection.lost == {PLACE: 5}
    (warning,) = [each.getMessage() for each in caplog.records if each.name == "eventlib.log"]
    assert warning == "projection heard: heard/0: offsets 2 to 6 were dropped before they were read; it continues at 7"


async def test_a_tail_warns_of_what_it_could_not_read(log: EventLog, caplog: pytest.LogCaptureFixture) -> None:
    await log.prepare()
    await hear(log, 2, ago=True)
    records = tail(log.port, ["heard"], "earliest", follow=True)
    assert len(await anext(records)) == 2
    await drop(log)
    with caplog.at_level(logging.WARNING, "eventlib.log"):
        assert [each.offset for each in await anext(records)] == [7]
    assert "the tail: heard/0: offsets 2 to 6 were dropped before they were read" in caplog.text
    await records.aclose()


async def test_an_import_names_events_that_were_gone_before_it_read_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "orders.ndjson").touch()
    async with open_log("memory://", shop) as log:
        await log.prepare()
        done = OrderCompleted(order_id="1", amount_cents=1, currency="GBP")
        (record,) = log.records_of(Publication(done), 0)
        await log.port.append([record] * 3)
        with Intake(Source(tmp_path / "orders.ndjson")) as intake:
            async with watching(log, intake, None) as watch:
                await log.port.delete_topics([record.topic])
                await log.port.create_topics([topic for topic in shop.topics if topic.name == record.topic])
                with caplog.at_level(logging.WARNING):
                    while not intake.report.lost:
                        await watch.read()
    assert intake.report.lost == {(record.topic, record.partition): (3, 0)}
    (warned,) = caplog.messages
    assert warned == (
        f"the import: orders/{record.partition}: it was at 3, and the topic ends at 0: records are missing at its end"
    )
