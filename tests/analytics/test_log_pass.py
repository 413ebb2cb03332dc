"""How a rebuild that reads a log by columns refuses a damaged file of it."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from analytics.rebuilding import log_pass
from eventlib.errors import LogCorrupt
from tests.analytics.sources import rebuild_shop


@pytest.mark.parametrize("few_records", [0, 1 << 30], ids=["in Spark's workers", "here"])
def test_a_damaged_file_is_named_and_nothing_is_published(
    spark: SparkSession, archive: str, tmp_path: Path, few_records: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_pass, "FEW_RECORDS", few_records)
    copy = Path(shutil.copytree(archive.removeprefix("archive:"), tmp_path / "archive"))
    (damaged,) = copy.glob("data/topic=orders/date=*/*.parquet")
    content = bytearray(damaged.read_bytes())
    content[len(content) // 3] ^= 1
    damaged.write_bytes(content)
    with pytest.raises(LogCorrupt, match=rf"{damaged}.*bring it back"):
        rebuild_shop(spark, f"archive:{copy}", tmp_path / "out")
    assert not (tmp_path / "out" / "orders").exists()
