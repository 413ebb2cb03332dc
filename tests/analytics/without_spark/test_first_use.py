"""The analytics on a machine whose caches are empty: what a job needs is fetched when it is needed, and nothing else."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from analytics.connectors import AVRO, KAFKA, connectors, fetch_needed
from eventlib.devtools.kafka.jars import IVY_SETTINGS_VARIABLE
from eventlib.devtools.kafka.java import find_java
from eventlib.errors import BrokerFailed
from tests.analytics.sources import ROOT
from tests.commands import said

DIRECTORY = """<ivysettings><settings defaultResolver="here"/><resolvers><filesystem name="here">
<artifact pattern="{}/[artifact]-[revision].[ext]"/></filesystem></resolvers></ivysettings>"""
NOWHERE = """<ivysettings><settings defaultResolver="nowhere"/><resolvers>
<ibiblio name="nowhere" m2compatible="true" root="http://127.0.0.1:1/"/></resolvers></ivysettings>"""

QUERY = "SELECT count(*) orders, sum(amount_cents) cents FROM OrderPlaced"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with nothing in it."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    return home


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository that does not answer."""
    file = tmp_path / "nowhere.xml"
    file.write_text(NOWHERE)
    monkeypatch.setenv(IVY_SETTINGS_VARIABLE, str(file))


@pytest.fixture(scope="session")
def repository() -> Path:
    """A directory that has the connector for Avro, and no other."""
    return AVRO.fetched(find_java(), AVRO.default_place())


@pytest.fixture
def mirror(repository: Path, tmp_path: Path) -> Path:
    """The settings of a repository in that directory."""
    file = tmp_path / "mirror.xml"
    file.write_text(DIRECTORY.format(repository))
    return file


@pytest.mark.extended
@pytest.mark.usefixtures("nowhere")
def test_without_a_network_a_query_gives_the_same_and_a_note(shop_log: str, home: Path) -> None:
    command = [sys.executable, "-m", "analytics", "sql", QUERY, "--log", shop_log, "--json"]
    done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    live = said("sql", QUERY.replace("OrderPlaced", "event_order_placed"), "--log", shop_log, "--json")
    (expected,) = json.loads(live)["rows"]
    assert json.loads(done.stdout) == expected
    assert expected["orders"] > 200
    assert done.stderr.startswith(f"{_line(home)}note: Spark's connector for Avro {AVRO.version} could not be fetched")
    assert f"put {AVRO.pinned()[0].file} into {_place(home)} (avro.lock pins" in done.stderr
    assert f"Ivy settings file with {IVY_SETTINGS_VARIABLE}" in done.stderr
    assert "Until then events are decoded in Python, which takes longer" in done.stderr


def test_it_is_fetched_once_from_a_mirror(
    mirror: Path, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(IVY_SETTINGS_VARIABLE, str(mirror))
    fetch_needed("sqlite:///shop.db")
    assert capsys.readouterr().err == _line(home)
    monkeypatch.setenv(IVY_SETTINGS_VARIABLE, "none.xml")
    fetch_needed("sqlite:///shop.db")
    assert capsys.readouterr().err == ""
    assert connectors(find_java(), fetch=False) == [_place(home) / AVRO.pinned()[0].file]
    assert [each.name for each in _place(home).parent.iterdir()] == [_place(home).name]


def _place(home: Path) -> Path:
    return home / ".cache" / "eventlib" / f"spark-avro-{AVRO.version}"


def _line(home: Path) -> str:
    what = f"Spark's connector for Avro {AVRO.version} from Maven Central, once: 1 file, 0.1 MB"
    return f"Downloading {what}, to {_place(home)}\n"


@pytest.mark.usefixtures("nowhere")
def test_a_log_on_kafka_cannot_be_read_without_its_connector(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BrokerFailed) as failed:
        fetch_needed("kafka://127.0.0.1:1", decoding=False)
    told = str(failed.value)
    place = home / ".cache" / "eventlib" / f"spark-kafka-{KAFKA.version}"
    assert all(jar.file in told for jar in KAFKA.pinned())
    assert f"into {place} (kafka.lock pins" in told
    assert f"Ivy settings file with {IVY_SETTINGS_VARIABLE}" in told
    assert "4 files, 9.9 MB" in capsys.readouterr().err


@pytest.mark.usefixtures("nowhere")
def test_nothing_is_fetched_that_is_not_needed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fetch_needed("sqlite:///shop.db", decoding=False)
    assert connectors(find_java(), fetch=False) == []
    assert capsys.readouterr().err == ""
    assert [*home.iterdir()] == []


@pytest.mark.usefixtures("nowhere")
def test_jars_that_a_person_has_put_there_are_taken(repository: Path, home: Path) -> None:
    shutil.copytree(repository, _place(home))
    fetch_needed("sqlite:///shop.db")
    assert connectors(find_java(), fetch=False) == [_place(home) / AVRO.pinned()[0].file]


@pytest.mark.usefixtures("nowhere")
def test_connectors_among_sparks_own_jars_are_not_fetched(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    for jar in (*AVRO.pinned(), *KAFKA.pinned()):
        (tmp_path / "spark" / "jars" / jar.file).touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    fetch_needed("kafka://127.0.0.1:1")
    assert connectors(find_java(), fetch=True) == []
    assert capsys.readouterr().err == ""
    assert [*home.iterdir()] == []
