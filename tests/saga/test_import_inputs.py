"""Files and logs as they should not be: each thing wrong gets its answer, and the other orders go on."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from eventlib.errors import WiringError
from eventlib.model.record import Record
from eventlib.opening import open_log
from services import shop
from services.importing.display import ImportProgress
from services.importing.files import UnreadableFile
from services.importing.importer import ImportConfig, import_file
from services.importing.report import Report
from services.order.events import OrderPlaced
from tests.saga.invariants import refusals

LINE: dict[str, Any] = {"sku": "A", "description": "A MUG", "quantity": 2, "unit_price": "2.55"}


SILENT = ImportProgress(Console(quiet=True))


def order(number: int, **changed: object) -> str:
    fields = {"order_id": str(number), "placed_at": "2010-12-01T08:26:00Z", "customer_id": None, "country": "EIRE"}
    return json.dumps(fields | {"cancels": None, "lines": [LINE]} | changed)


def write(path: Path, lines: Iterable[str]) -> Path:
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'shop.db'}"


async def run(tmp_path: Path, *lines: str, **options: Any) -> Report:
    file = write(tmp_path / "orders.ndjson", lines)
    return await import_file(file, ImportConfig(log_url=url(tmp_path), **options), SILENT)


async def test_what_is_wrong_is_refused_and_the_rest_goes_on(tmp_path: Path) -> None:
    rejects = tmp_path / "rejects.ndjson"
    huge = order(7, country="x" * 10_000_000)
    wide = order(8, lines=[LINE | {"sku": f"\N{GRINNING FACE}{number:0199}"} for number in range(4_999)])
    report = await run(
        tmp_path, order(1), "nonsense", order(2, cancels=True), huge, wide, order(1), order(1, country="FR"), order(3),
        rejects=rejects,
    )  # fmt: skip
    assert (report.read, report.placed, report.repeated, report.completed) == (8, 2, 1, 2)
    assert [(each["order_id"], each["reason"], each["detail"]) for each in refusals(rejects)] == [
        (None, "malformed", "file line 2: not JSON: Expecting value at column 1"),
        ("2", "credit note", "file line 3: cancels is true"),
        (None, "malformed", "file line 4: the line has 10,000,194 bytes, and 4,194,304 is the most"),
        ("8", "malformed", "file line 5: the order takes 1,049,756 bytes, and 999,000 is the most"),
        ("1", "malformed", "file line 7: order 1 was in the file before, with other content"),
    ]


async def test_an_order_that_the_log_has_with_other_content_is_told(tmp_path: Path) -> None:
    rejects = tmp_path / "rejects.ndjson"
    await run(tmp_path, order(1), order(2))

    report = await run(tmp_path, order(1, country="FR"), order(2), order(3), rejects=rejects)

    assert (report.placed, report.placed_before, report.completed) == (1, 1, 2)
    (refused,) = refusals(rejects)
    assert refused["reason"] == "conflict"
    assert refused["detail"] == "file line 1: the log has an order 1 already, with other content"


async def test_other_units_for_the_same_file_stay_as_they_are(tmp_path: Path) -> None:
    await run(tmp_path, order(1), stock_units=10)
    report = await run(tmp_path, order(1), stock_units=20)
    assert report.notes == [
        "1 deliveries of this file are on the log with another number of units: they stay as they are"
    ]


async def test_an_order_behind_an_external_record_is_listed_and_the_others_end(tmp_path: Path) -> None:
    async with open_log(url(tmp_path), shop) as log:
        topic = next(topic for topic in shop.topics if topic.name == "orders")
        place = topic.partition_of(b"2")
        await log.port.append([Record("orders", place, -1, 0, b"2", b"\x00\xff", type=OrderPlaced.__name__)])

    report = await run(tmp_path, order(1), order(2), order(3))

    assert report.completed == 2
    assert [waiting.order_id for waiting in report.waiting] == ["2"]
    assert report.waiting[0].service in {"stock", "payment", "dispatch"}
    assert report.waiting[0].key == "2"


async def test_nothing_is_made_of_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile):
        await import_file(tmp_path / "none.ndjson", ImportConfig(log_url=url(tmp_path)), SILENT)
    assert not (tmp_path / "shop.db").exists()


async def test_the_rejects_do_not_overwrite_the_orders(tmp_path: Path) -> None:
    file = write(tmp_path / "orders.ndjson", [order(1)])
    with pytest.raises(WiringError, match="is the imported file"):
        await import_file(file, ImportConfig(log_url=url(tmp_path), rejects=file), SILENT)
    assert file.read_text()
