"""Events that are gone before an import has read them are named and counted, and never passed over in silence."""

import logging
from pathlib import Path

import pytest

from eventlib import Publication, open_log
from services import shop
from services.importing.files import Source
from services.importing.intake import Intake
from services.importing.report import Outcomes
from services.importing.watching import watching
from services.order.events import OrderCompleted


async def test_an_import_names_events_that_were_gone_before_it_read_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "orders.ndjson").touch()
    outcomes = Outcomes()
    async with open_log("memory://", shop) as log:
        await log.prepare()
        done = OrderCompleted(order_id="1", amount_cents=1, currency="GBP")
        (record,) = log.records_of(Publication(done), 0)
        await log.port.append([record] * 3)
        with Intake(Source(tmp_path / "orders.ndjson")) as intake:
            async with watching(log, intake, outcomes, None) as watch:
                await log.port.delete_topics([record.topic])
                await log.port.create_topics([topic for topic in shop.topics if topic.name == record.topic])
                with caplog.at_level(logging.WARNING):
                    while not outcomes.lost:
                        await watch.read()
    assert outcomes.lost == {(record.topic, record.partition): (3, 0)}
    (warned,) = caplog.messages
    assert warned == (
        f"the import: orders/{record.partition}: it was at 3, and the topic ends at 0: records are missing at its end"
    )
