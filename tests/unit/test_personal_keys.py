"""The keys of people: made once, wrapped, shared by processes, and gone when they are destroyed."""

import json
import random
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from eventlib.errors import ContractError, LogCorrupt, LogUnavailable, WiringError
from eventlib.personal import ERASED, MASKED, pseudonym
from eventlib.personal.base import Mask
from eventlib.personal.master import FileMaster, VaultMaster
from eventlib.personal.opening import open_cipher
from eventlib.personal.pseudonyms import key_in
from eventlib.personal.ring import KeyRing, erase, marker_of
from eventlib.personal.secret_file import create_secret
from eventlib.personal.sqlite_store import SqliteKeyStore
from examples import letters
from services import shop


@pytest.fixture
def master(tmp_path: Path) -> FileMaster:
    create_secret(tmp_path / "master.key")
    return FileMaster(tmp_path / "master.key")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteKeyStore]:
    found = SqliteKeyStore(tmp_path / "log.keys", create=True)
    yield found
    found.close()


@pytest.fixture
def ring(store: SqliteKeyStore, master: FileMaster) -> KeyRing:
    return KeyRing(store, master, create=True)


def another(store: SqliteKeyStore, master: FileMaster) -> KeyRing:
    return KeyRing(SqliteKeyStore(store.path, create=False), master, create=False)


def test_what_is_equal_is_so_for_one_field_of_one_person(ring: KeyRing) -> None:
    first = ring.encrypt("p1", "name", "Ada")
    assert ring.encrypt("p1", "name", "Ada") == first
    assert (
        len(
            {
                first,
                ring.encrypt("p2", "name", "Ada"),
                ring.encrypt("p1", "city", "Ada"),
                ring.encrypt("p1", "name", "Bob"),
            }
        )
        == 4
    )
    assert ring.decrypt(first) == "Ada"


def test_another_process_reads_it_and_has_the_same_keys(
    ring: KeyRing, store: SqliteKeyStore, master: FileMaster
) -> None:
    text = ring.encrypt("p1", "name", "Ada")
    other = another(store, master)
    assert other.decrypt(text) == "Ada"
    assert other.encrypt("p1", "name", "Ada") == text
    with pytest.raises(ContractError, match="'p2' has no key"):
        other.encrypt("p2", "name", "Ada")
    other.close()


def test_a_destroyed_key_leaves_the_caches_of_other_processes(
    ring: KeyRing, store: SqliteKeyStore, master: FileMaster
) -> None:
    text, kept = ring.encrypt("p1", "name", "Ada"), ring.encrypt("p2", "name", "Bob")
    other, dropped = another(store, master), list[bool]()
    other.on_erasure(lambda: dropped.append(True))
    assert other.decrypt(text) == "Ada"
    assert erase(store, "p1", 1)
    other.drop_erased()
    ring.drop_erased()
    for each in (ring, other):
        assert each.decrypt(text) == ERASED
        assert each.encrypt("p1", "name", "Ada") == ERASED
        assert each.decrypt(kept) == "Bob"
    assert dropped == [True]
    other.close()


def test_the_bytes_of_destroyed_keys_are_in_no_file(tmp_path: Path, ring: KeyRing, store: SqliteKeyStore) -> None:
    people = [f"person {number}" for number in range(500)]
    random.Random(1).shuffle(people)
    ring.prepare(people)
    wrapped = {each: row.wrapped for each in people if (row := store.of_subject(each))}
    for each in people[::2]:
        erase(store, each)
    files = [path.read_bytes() for path in tmp_path.iterdir()]
    assert not [each for each in people[::2] if any(wrapped[each] in data for data in files)]
    assert all(any(wrapped[each] in data for data in files) for each in people[1::2])


def test_a_scan_finds_a_persons_ciphertext_without_a_key(ring: KeyRing, store: SqliteKeyStore) -> None:
    text = ring.encrypt("p1", "name", "Ada")
    row = store.of_subject("p1")
    assert row is not None
    assert text.encode().startswith(marker_of(row.id))


@pytest.mark.parametrize(
    "change", [lambda t: t[:-2], lambda t: t[:20] + "AAAA" + t[24:], lambda _: "pd1.?", lambda _: "pd1.AAAA"]
)
def test_damaged_ciphertext_is_refused(ring: KeyRing, change: Callable[[str], str]) -> None:
    text = ring.encrypt("p1", "name", "Ada")
    with pytest.raises(ContractError):
        ring.decrypt(change(text))


def test_another_master_key_is_refused(tmp_path: Path, ring: KeyRing, store: SqliteKeyStore) -> None:
    ring.encrypt("p1", "name", "Ada")
    create_secret(tmp_path / "other.key")
    with pytest.raises(WiringError, match="not the master key"):
        KeyRing(store, FileMaster(tmp_path / "other.key"), create=False)


def test_a_master_key_is_its_owners_only_and_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "master.key"
    with pytest.raises(WiringError, match="eventlib subjects master"):
        FileMaster(path)
    create_secret(path)
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(WiringError, match="exists"):
        create_secret(path)
    path.chmod(0o640)
    with pytest.raises(WiringError, match="can be read by others"):
        FileMaster(path)
    path.chmod(0o600)
    path.write_text("c2hvcnQ=\n")
    with pytest.raises(WiringError, match="not base64 of 32 bytes"):
        FileMaster(path)


def test_keys_that_are_not_there_or_damaged_are_named(tmp_path: Path) -> None:
    with pytest.raises(WiringError, match="EVENTLIB_PERSONAL_KEYS"):
        SqliteKeyStore(tmp_path / "none.keys", create=False)
    (tmp_path / "bad.keys").write_bytes(b"no database at all, but long enough" * 100)
    with pytest.raises(LogCorrupt, match="damaged"):
        SqliteKeyStore(tmp_path / "bad.keys", create=True)
    assert not any("bad.keys" in str(each.resolve()) for each in Path("/dev/fd").iterdir()), "what failed is left open"


class Transit(BaseHTTPRequestHandler):
    """As much of Vault's transit engine as wraps a key: with a token, under a name."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status, data = 403, {}
        if self.headers["X-Vault-Token"] == "away":
            status = 503
        elif self.headers["X-Vault-Token"] == "s.right" and self.path == "/v1/transit/encrypt/shop":
            status, data = 200, {"ciphertext": "vault:v1:" + b64encode(b64decode(body["plaintext"])[::-1]).decode()}
        elif self.headers["X-Vault-Token"] == "s.right" and self.path == "/v1/transit/decrypt/shop":
            plain = b64decode(body["ciphertext"].removeprefix("vault:v1:"))[::-1]
            status, data = 200, {"plaintext": b64encode(plain).decode()}
        answer = json.dumps({"data": data}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def vault() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Transit)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/transit/shop"
    server.shutdown()
    thread.join()
    server.server_close()


def test_vault_wraps_the_key_of_the_store(store: SqliteKeyStore, vault: str) -> None:
    text = KeyRing(store, VaultMaster(vault, "s.right"), create=True).encrypt("p1", "name", "Ada")
    assert KeyRing(store, VaultMaster(vault, "s.right"), create=False).decrypt(text) == "Ada"
    assert (store.ring() or b"").startswith(b"vault:v1:")
    with pytest.raises(WiringError, match="403"):
        KeyRing(store, VaultMaster(vault, "s.wrong"), create=False)
    with pytest.raises(LogUnavailable, match="503"):
        KeyRing(store, VaultMaster(vault, "away"), create=False)
    with pytest.raises(WiringError, match="names no transit key"):
        VaultMaster("https://vault:8200", "s.right")
    with pytest.raises(WiringError, match="EVENTLIB_PERSONAL_VAULT_TOKEN"):
        VaultMaster(vault, None)


def test_pseudonyms_need_their_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert pseudonym("12583") is None
    found = set[str | None]()
    for name in ("a.key", "b.key"):
        create_secret(tmp_path / name)
        monkeypatch.setenv("EVENTLIB_PERSONAL_PSEUDONYMS", str(tmp_path / name))
        assert pseudonym("12583") == pseudonym("12583") != pseudonym("12584")
        found.add(pseudonym("12583"))
    assert len(found) == 2
    assert {len(each or "") for each in found} == {16}
    key_in.cache_clear()


def test_a_log_on_kafka_needs_to_be_told_where_its_keys_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create_secret(tmp_path / "master.key")
    monkeypatch.setenv("EVENTLIB_PERSONAL_MASTER", f"file:{tmp_path / 'master.key'}")
    with pytest.raises(WiringError, match="EVENTLIB_PERSONAL_KEYS"):
        open_cipher(letters.app, "kafka://127.0.0.1:1/", rights=True)
    assert open_cipher(letters.app, "kafka://127.0.0.1:1/", rights=False).decrypt("pd1.") == MASKED
    monkeypatch.setenv("EVENTLIB_PERSONAL_KEYS", "mysql://127.0.0.1/keys")
    with pytest.raises(WiringError, match="write postgresql://USER@HOST/DATABASE, or sqlite:///PATH"):
        open_cipher(letters.app, "kafka://127.0.0.1:1/", rights=True)
    monkeypatch.delenv("EVENTLIB_PERSONAL_KEYS")
    monkeypatch.setenv("EVENTLIB_PERSONAL_MASTER", "master.key")
    with pytest.raises(WiringError, match="write file:PATH"):
        open_cipher(letters.app, f"sqlite:///{tmp_path}/log.db", rights=True)


def test_an_application_without_personal_fields_needs_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENTLIB_PERSONAL_MASTER", "file:/nowhere")
    assert type(open_cipher(shop, "kafka://127.0.0.1:1/", rights=True)) is Mask
