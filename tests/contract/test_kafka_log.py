"""The log on Kafka passes the public suite, on a real broker; also where transactions are of the first kind."""

from hashlib import blake2b
from pathlib import Path

import pytest

from eventlib.devtools.kafka import Cluster
from eventlib.errors import LogUnavailable
from eventlib.log.base import Log
from eventlib.log.kafka.log import KafkaLog
from eventlib.model.record import Record
from eventlib.testing.log_contract import AppendContract, LogContract
from eventlib.testing.log_fixture import LogFixture, flipped
from eventlib.testing.ownership_contract import OwnershipContract


def _prefix(place: Path) -> str:
    return blake2b(str(place).encode(), digest_size=6).hexdigest()


class OnKafka(LogFixture):
    compacts_now = False
    shares_tasks = True
    seen_at_once = False

    broker: Cluster

    @pytest.fixture(autouse=True)
    def _on_the_broker(self, broker: Cluster) -> None:
        self.broker = broker

    async def open_log(self, place: Path) -> Log:
        prefix = _prefix(place)
        return await KafkaLog.open(f"{self.broker.url}/?prefix={prefix}.")


class TestKafkaLog(OnKafka, LogContract):
    async def change(self, written: Record, bits: int) -> None:
        """Change the value in the segment on the broker's disk, as a disk would: below the broker's own checks."""
        assert written.value is not None
        prefix = _prefix(self.place / "log")
        folder = f"{prefix}.{written.topic}-{written.partition}"
        (segment,) = (
            path for path in self.broker.directory.glob(f"**/{folder}/*.log") if written.value in path.read_bytes()
        )
        place = segment.read_bytes().index(written.value)
        with segment.open("r+b") as file:
            file.seek(place)
            file.write(flipped(written.value, bits))

    async def test_the_owners_of_a_closed_log_are_not_known(self, log: Log) -> None:
        claim = await log.seize("s", 0)
        await log.append([], claim)
        await log.close()
        with pytest.raises(LogUnavailable, match="closed"):
            await log.owners("s")


class TestKafkaLogWithAnnouncedTransactions(OnKafka, AppendContract, OwnershipContract):
    """On a cluster that has not agreed on transactions of the second kind, as those before Kafka 4.0."""

    @pytest.fixture(autouse=True)
    def _an_older_cluster(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("eventlib.log.kafka.client.finalized_features", lambda _: {})


class TestKafkaLogThatCompresses(OnKafka, AppendContract):
    """With batches that are compressed on their way and on the brokers."""

    async def open_log(self, place: Path) -> Log:
        prefix = _prefix(place)
        return await KafkaLog.open(f"{self.broker.url}/?prefix={prefix}.&compression=gzip")
