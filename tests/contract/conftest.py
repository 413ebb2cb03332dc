"""Let pytest explain the asserts of the public suites as it does those of tests; and AWS, as moto plays it."""

from collections.abc import Iterator

import pytest

from eventlib.object_store import ObjectStore

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
def store(moto: str, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    from tests.moto import new_bucket

    return new_bucket(moto, monkeypatch)
