"""One Spark session and one log of the shop for all tests of the analytics."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from analytics import report, session
from analytics.rebuilding import How, Rebuilt, rebuild
from analytics.session import end_session
from analytics.stores.version import Version, VersionBefore
from eventlib.devtools.kafka import Cluster
from eventlib.ground.object_store import ObjectStore
from services.analytics import TABLES
from services.analytics.parts import report as shops
from tests import forked
from tests.analytics.repairs import worked
from tests.analytics.sources import REPAIRS, ROOT, archived, thirds
from tests.moto import new_bucket, on_this_machine, running_moto
from tests.ports import free_port


@pytest.fixture(scope="session")
def bucket_port() -> int:
    """Where the object store of a run is, once a test starts it: Spark is told at its start."""
    return free_port()


@pytest.fixture(scope="session")
def moto(bucket_port: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_moto(tmp_path_factory.mktemp("moto"), bucket_port) as url:
        yield url


@pytest.fixture
def bucket(moto: str, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    """Return an empty directory of a bucket that is this test's."""
    return new_bucket(moto, monkeypatch)


@pytest.fixture(scope="session")
def spark(bucket_port: int) -> Iterator[SparkSession]:
    config = {
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
        "spark.python.task.killTimeout": "100ms",  # a worker whose task was cancelled gets two seconds by default
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in on_this_machine(f"http://127.0.0.1:{bucket_port}").items():
            patch.setenv(name, value)
        spark = session(
            "tests",
            master="local[2]",
            config=config,
            # Else it sweeps its code, and collects a young generation that is small at first, all the time.
            java="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m -Xms1g -Xmn500m",
            fetch=True,
            formats=["iceberg", "delta", "s3a"],
        )
    yield spark
    end_session(well=True)


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The plans of all that a test's rebuilds stage."""
    found, stage = list[str](), Version.stage

    def planned(version: Version[VersionBefore], name: str, rows: DataFrame, by: str | None = None) -> DataFrame:
        found.append(str(rows._jdf.queryExecution().executedPlan()))  # noqa: SLF001  the only way to it
        return stage(version, name, rows, by)

    monkeypatch.setattr(Version, "stage", planned)
    return found


@pytest.fixture(scope="session")
def shop_log(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of a log with some hundred orders that came to their ends in every way that the demo knows."""
    url = f"sqlite:///{tmp_path_factory.mktemp('shop')}/shop.db"
    command = [sys.executable, "-m", "services", "demo", "--orders", "300", "--seed", "7", "--log", url, "--json"]
    forked.run(command, cwd=ROOT, check=True, capture_output=True, timeout=300)
    return url


@pytest.fixture(scope="session")
def broker_log(broker: Cluster) -> str:
    """The URL of a log on a real broker, with some dozen orders, and the gaps that transactions leave."""
    url = f"{broker.url}/?prefix=traded."
    command = [sys.executable, "-m", "services", "demo", "--orders", "80", "--seed", "7", "--log", url, "--json"]
    forked.run(command, cwd=ROOT, check=True, capture_output=True, timeout=300)
    return url


@pytest.fixture(scope="session")
def archive(shop_log: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of the shop's archive."""
    return archived(shop_log, tmp_path_factory.mktemp("archive"))


@pytest.fixture(scope="session")
def shop_tables(spark: SparkSession, archive: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shop's own tables and those of its report, made of the archive at once, for all tests that only read them."""
    place = tmp_path_factory.mktemp("shop tables")
    done = rebuild(spark, archive, place, how=How(select=(*TABLES, *report.TABLES, *shops.tables)))
    assert (done.full, done.undecodable) == (True, 0)
    return place


@pytest.fixture(scope="session")
def repair_log(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of a log of a dozen repairs: done, given up, and waiting for the supplier."""
    url = f"sqlite:///{tmp_path_factory.mktemp('repairs')}/repairs.db"
    asyncio.run(worked(url))
    return url


@pytest.fixture(scope="session")
def repair_archive(repair_log: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    return archived(repair_log, tmp_path_factory.mktemp("repair archive"))


@pytest.fixture(scope="session")
def repaired(spark: SparkSession, repair_log: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Rebuilt]:
    """Every table of the repairs, for all tests that only read them, and what the run says."""
    place = tmp_path_factory.mktemp("repaired")
    return place, rebuild(spark, repair_log, place, application=REPAIRS)


@pytest.fixture(scope="session")
def grown(
    spark: SparkSession, repair_log: str, repair_archive: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Rebuilt]:
    """Some tables of the repairs in two versions: of two thirds of the log, and what an increment from its archive adds."""
    place = tmp_path_factory.mktemp("grown")
    how = How(select=("endings", "event_part_sent", "event_repair_given_up", "quarantine"))
    rebuild(spark, repair_log, place, as_of=thirds(repair_log, 2), application=REPAIRS, how=how)
    return place, rebuild(spark, repair_archive, place, application=REPAIRS, how=how)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Spark's bridge to Python leaves the sockets of finished jobs to the collector.
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
