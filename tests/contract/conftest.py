"""Let pytest explain the asserts of the public suites as it does those of tests; AWS, as moto plays it; and a registry."""

from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from eventlib.object_store import ObjectStore
from tests.contract.registry_servers import registry

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
def store(moto: str, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    from tests.moto import new_bucket

    return new_bucket(moto, monkeypatch)
