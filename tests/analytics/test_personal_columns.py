"""Spark decrypts personal fields with rights, and has NULL for whom an erasure has forgotten."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import analytics
from analytics.personal import decrypted
from eventlib import open_log
from eventlib.errors import WiringError
from eventlib.operations.erasure import forget
from eventlib.personal.base import PREFIX
from eventlib.personal.opening import open_store, personal_options
from eventlib.personal.secret_file import create_secret
from examples.letters import LetterSubmitted, app


async def test_columns_are_ciphertext_then_text_then_null(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_secret(tmp_path / "master.key")
    monkeypatch.setenv("EVENTLIB_PERSONAL_MASTER", f"file:{tmp_path / 'master.key'}")
    url = f"sqlite:///{tmp_path}/letters.db"
    async with open_log(url, app) as log:
        for who in ("ada", "bob"):
            phone = "7" if who == "ada" else None
            await log.publish(
                LetterSubmitted(
                    letter_id=who, customer_id=who, name=who.title(), street="High Street 1", city="Oxford", phone=phone
                )
            )
        raw = {row.customer_id: row for row in analytics.events(spark, url, LetterSubmitted).collect()}
        assert {raw[who].name[:4] for who in raw} == {raw[who].city[:4] for who in raw} == {PREFIX}
        assert raw["ada"].city != raw["bob"].city
        rows = decrypted(analytics.events(spark, url, LetterSubmitted), LetterSubmitted, url)
        found = {row.customer_id: (row.name, row.city, row.phone, row.email) for row in rows.collect()}
        assert found == {"ada": ("Ada", "Oxford", "7", ""), "bob": ("Bob", "Oxford", None, "")}
        with open_store(url, personal_options(), create=False) as store:
            await forget(log.port, store, "ada", "asked", "me")
        found = {row.customer_id: (row.name, row.city, row.phone, row.email) for row in rows.collect()}
        assert found == {"ada": (None, None, None, ""), "bob": ("Bob", "Oxford", None, "")}
        await log.publish(LetterSubmitted(letter_id="again", customer_id="ada", name="Ada", street="", city="Ely"))
        rows = decrypted(analytics.events(spark, url, LetterSubmitted), LetterSubmitted, url)
        assert [row.city for row in rows.filter("letter_id = 'again'").collect()] == [None]
    monkeypatch.delenv("EVENTLIB_PERSONAL_MASTER")
    with pytest.raises(WiringError, match="EVENTLIB_PERSONAL_MASTER"):
        decrypted(rows, LetterSubmitted, url)
