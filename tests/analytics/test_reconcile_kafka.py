"""On Kafka the same: what services keep in RocksDB and on compacted changelogs is what the log says."""

import sys
from pathlib import Path

import pytest

from eventlib.devtools.kafka import Cluster
from tests import forked
from tests.analytics.sources import ROOT
from tests.analytics.test_reconcile import DECIDERS, reconciled

pytestmark = pytest.mark.usefixtures("spark")


@pytest.mark.slow
def test_stores_and_changelogs_of_services_on_kafka_are_as_the_log_says(
    broker: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setenv("EVENTLIB_STATE_DIR", str(tmp_path / "state"))
    url = f"{broker.url}/?prefix=reconciled."
    command = [sys.executable, "-m", "services", "demo", "--orders", "80", "--seed", "7", "--log", url, "--json"]
    forked.run(command, cwd=ROOT, check=True, capture_output=True, timeout=300)
    code, told = reconciled(capfdbinary, "--log", url)
    assert (code, told["differences"]) == (0, [])
    by_place = {(each["where"], each["about"]): each for each in told["compared"]}
    assert by_place.keys() == {(where, decider) for where in ("store", "changelog") for decider in DECIDERS}
    assert all(each["keys"] == each["equal"] > 0 for each in told["compared"])
