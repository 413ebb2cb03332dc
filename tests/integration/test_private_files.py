"""Files with what events hold are for the user who runs the process alone, whatever its umask."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from analytics.archiving import archive
from eventlib import open_log
from eventlib.operations.backup.restore import restore
from eventlib.operations.backup.write import back_up
from eventlib.state.rocksdb import RocksStores
from eventlib.state.sqlite import SqliteStores
from services import shop
from services.order.events import ProductListed
from services.simulation.ledger import open_ledger
from tests.integration.api_shop import api, open_shop, place


@pytest.fixture(autouse=True)
def _open_to_all() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(directory: Path) -> dict[str, str]:
    """Return the modes of what is below a directory and wider than its owner's."""
    return {
        str(path.relative_to(directory)): f"{path.stat().st_mode & 0o777:o}"
        for path in directory.rglob("*")
        if path.stat().st_mode & 0o077
    }


async def test_a_log_its_stores_and_its_index_are_private(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "shop") as found, api(found) as client:
        await place(client)
        assert (tmp_path / "shop/shop.db-wal").exists()
        assert modes(tmp_path) == {}


@pytest.mark.parametrize("kind", [RocksStores, SqliteStores])
def test_stores_are_private(kind: type[RocksStores] | type[SqliteStores], tmp_path: Path) -> None:
    store = kind(tmp_path / "var" / "stores").open("orders", 0, 1, "log")
    store.write({"a": b"1"}, 1)
    store.close()
    assert {path for path in modes(tmp_path) if (tmp_path / path).is_dir() or kind is SqliteStores} == set()


async def test_backups_and_what_is_restored_are_private(tmp_path: Path) -> None:
    async with open_log(f"sqlite:///{tmp_path}/shop.db", shop) as log:
        await log.publish(ProductListed(sku="A", description="A", unit_price_cents=250, currency="GBP"))
        back_up(
            tmp_path / "shop.db", "sqlite:///shop.db", tmp_path / "backups" / "one", full=True, progress=lambda *_: None
        )
    await restore(tmp_path / "backups" / "one", tmp_path / "other" / "shop.db", None, None)
    assert modes(tmp_path) == {}


async def test_an_archive_is_private(tmp_path: Path) -> None:
    async with open_log(f"sqlite:///{tmp_path}/shop.db", shop) as log:
        await log.publish(ProductListed(sku="A", description="A", unit_price_cents=250, currency="GBP"))
        await archive(log.port, tmp_path / "archive")
    assert modes(tmp_path) == {}


def test_a_ledger_is_private(tmp_path: Path) -> None:
    with open_ledger(tmp_path / "var" / "simulators.db"):
        assert modes(tmp_path) == {}
