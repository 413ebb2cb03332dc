"""Spark's workers open a log with the driver's settings, on whatever machine they are."""

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.serializers import CPickleSerializer

from analytics.audit.application import Application
from eventlib.log.kafka.options import parse_url

SHOP = Application("services:shop")
SPARKS: Any = CPickleSerializer()  # it has no types; Spark sends with it what a task is made of


def test_a_worker_has_the_drivers_settings_while_a_job_is_that_drivers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    driver = {
        "EVENTLIB_KAFKA_TLS": "true",
        "EVENTLIB_KAFKA_TLS_CA": str(tmp_path / "ca.pem"),
        "EVENTLIB_KAFKA_PASSWORD": "secret",
        "AWS_REGION": "eu-west-1",
    }
    (tmp_path / "ca.pem").write_text("a certificate")
    for name, value in driver.items():
        monkeypatch.setenv(name, value)
    sent = SPARKS.dumps(SHOP)
    for name in driver:
        monkeypatch.delenv(name)
    without = SPARKS.dumps(SHOP)
    (tmp_path / "ca.pem").unlink()  # it is on the driver's machine only
    assert SPARKS.loads(sent) == SHOP
    _, options = parse_url("kafka://h:1")
    assert options.tls
    assert options.tls_ca is not None
    assert Path(options.tls_ca).read_text() == "a certificate"
    assert options.password is not None
    assert options.password.get_secret_value() == "secret"
    assert os.environ["AWS_REGION"] == "eu-west-1"
    assert SPARKS.loads(without) == SHOP
    assert not driver.keys() & os.environ.keys()


def test_a_file_that_both_have_is_used_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("a certificate")
    monkeypatch.setenv("EVENTLIB_KAFKA_TLS_CA", str(tmp_path / "ca.pem"))
    assert SPARKS.loads(SPARKS.dumps(SHOP)) == SHOP
    assert parse_url("kafka://h:1")[1].tls_ca == str(tmp_path / "ca.pem")
