"""Let pytest explain the asserts of the public suites as it does those of tests; AWS, as moto plays it; a registry, and a log."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from eventlib import open_log
from eventlib.ground.object_store import ObjectStore
from tests.contract.catalogue import CATALOGUE, Opened
from tests.contract.registry_servers import listening_registry, registry
from tests.integration.reopening import reopened

pytest.register_assert_rewrite(
    "eventlib.testing.append_contract",
    "eventlib.testing.damage_contract",
    "eventlib.testing.log_contract",
    "eventlib.testing.ownership_contract",
    "eventlib.testing.reader_contract",
    "eventlib.testing.store_contract",
)


@pytest.fixture(scope="module")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    from tests.moto import running_moto  # it imports boto3, which few of these tests need

    with running_moto(tmp_path_factory.mktemp("moto")) as url:
        yield url


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    """A client of an empty registry."""
    async with registry() as opened:
        yield opened


@pytest.fixture
def url() -> Iterator[str]:
    """Where an empty registry listens."""
    with listening_registry() as listening:
        yield listening


@pytest.fixture(params=["memory", "sqlite", pytest.param("kafka", marks=pytest.mark.heavy)])
async def opened(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Opened]:
    """Opens the same log of the catalogue again and again, as other processes do."""
    if request.param == "sqlite":
        yield lambda: open_log(f"sqlite:///{tmp_path}/log.db", CATALOGUE)
        return
    if request.param == "kafka":
        url = str(request.getfixturevalue("kafka_url"))
        yield lambda: open_log(url, CATALOGUE)
        return
    async with open_log("memory://", CATALOGUE) as kept:
        yield lambda: reopened(kept, CATALOGUE)


@pytest.fixture
def store(moto: str, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    from tests.moto import new_bucket

    return new_bucket(moto, monkeypatch)
