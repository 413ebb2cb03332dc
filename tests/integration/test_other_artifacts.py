"""What Maven Central has beside jars is fetched as they are: pinned, by its type."""

from hashlib import sha256
from pathlib import Path

import pytest

from eventlib.devtools.kafka.jars import IVY_SETTINGS_VARIABLE, JarSet
from eventlib.devtools.kafka.java import find_java
from eventlib.errors import BrokerFailed
from tests.keycloak import KEYCLOAK

DIRECTORY = """<ivysettings><settings defaultResolver="here"/><resolvers><filesystem name="here">
<artifact pattern="{}/[artifact]-[revision].[ext]"/></filesystem></resolvers></ivysettings>"""
CONTENT = b"a distribution"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    there = tmp_path / "repository"
    there.mkdir()
    (tmp_path / "ivysettings.xml").write_text(DIRECTORY.format(there), encoding="utf-8")
    monkeypatch.setenv(IVY_SETTINGS_VARIABLE, str(tmp_path / "ivysettings.xml"))
    return there


def things(directory: Path) -> JarSet:
    lock = directory / "things.lock"
    pins = [f"{sha256(CONTENT).hexdigest()} {len(CONTENT)} org.example:{name}" for name in ("thing:1:zip", "other:2")]
    lock.write_text("\n".join(["# Things", *pins]), encoding="utf-8")
    return JarSet("Things", "things", "thing", lock)


def test_an_artifact_of_another_type_is_fetched_beside_jars(repository: Path, tmp_path: Path) -> None:
    for name in ("thing-1.zip", "other-2.jar"):
        (repository / name).write_bytes(CONTENT)
    fetched = things(tmp_path).fetched(find_java(), tmp_path / "cache" / "things")
    assert {each.name: each.read_bytes() for each in fetched.iterdir()} == {
        "thing-1.zip": CONTENT,
        "other-2.jar": CONTENT,
    }


def test_a_jar_is_not_taken_for_it(repository: Path, tmp_path: Path) -> None:
    for name in ("thing-1.jar", "other-2.jar"):
        (repository / name).write_bytes(CONTENT)
    with pytest.raises(BrokerFailed, match="could not be fetched"):
        things(tmp_path).fetched(find_java(), tmp_path / "cache" / "things")


def test_keycloak_is_one_archive() -> None:
    (archive,) = KEYCLOAK.pinned()
    assert archive.file == f"keycloak-quarkus-dist-{KEYCLOAK.version}.zip"
