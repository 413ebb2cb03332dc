"""The analytics without a session: imports, refusals, directories of their own, and workers that have the driver's settings."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.serializers import CPickleSerializer

from analytics.audit.application import Application
from analytics.cli import run
from eventlib.log.kafka.options import parse_url
from tests.analytics.sources import ROOT

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


HOLD = """
import signal, sys, time
from analytics.scratch import scratch
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
print(scratch(), flush=True)
time.sleep(60)
"""


@contextmanager
def holder(directory: Path) -> Iterator[tuple["subprocess.Popen[str]", Path]]:
    environment = {"PYTHONPATH": str(ROOT), "TMPDIR": str(directory)}
    command = [sys.executable, "-c", HOLD]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def test_what_a_killed_process_has_left_goes_when_the_next_one_begins(tmp_path: Path) -> None:
    with holder(tmp_path) as (process, left):
        process.kill()
        process.wait()
        assert left.is_dir()
    with holder(tmp_path) as (_, first), holder(tmp_path) as (_, second):
        assert {first, second} == set(tmp_path.iterdir())


def test_one_that_is_told_to_end_leaves_nothing(tmp_path: Path) -> None:
    with holder(tmp_path) as (process, _):
        process.terminate()
        assert process.wait(120) == 143
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mysql://x", "unknown scheme"),
        ("archive:no-such-directory", "analytics archive --log URL"),
        ("kafka://127.0.0.1:1", "no Kafka broker can be reached"),
        ("sqlite:///no-such-file.db", "there is no log"),
    ],
)
@pytest.mark.parametrize("options", [["rebuild"], ["rebuild", "--follow"], ["report"]], ids=" ".join)
def test_nothing_is_made_of_a_log_that_cannot_be_read(
    url: str, says: str, options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out" / "made"
    assert run([*options, "--log", url, "--out", str(out)]) == 1
    assert says in capsys.readouterr().err
    assert not out.parent.exists()


@pytest.mark.parametrize("command", ["report", "reconcile", "audit"])
def test_an_application_that_is_not_there_is_refused_before_anything_is_read(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, "--app", "no.such:app", "--log", "sqlite:///no-such-file.db"]) == 1
    assert "no.such" in capsys.readouterr().err


_SLOW = ("adbc_driver_sqlite", "boto3", "deltalake", "duckdb", "matplotlib", "pandas", "polars", "pyiceberg")


def test_slow_packages_are_not_imported_with_the_analytics() -> None:
    jobs = "analytics, analytics.audit, analytics.rebuilding, analytics.report, analytics.whatif"
    code = f"import sys, {jobs}, services.analytics.parts, tests.analytics.engines; print(*{{*{_SLOW}}} & {{*sys.modules}})"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.split() == []
