"""Subjects' keys in PostgreSQL: a server that is killed, restarted, read-only or refuses, and what a message may show."""

import logging
import os
import random
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from threading import Event, Thread

import pytest

from eventlib.errors import LogUnavailable, WiringError
from eventlib.ground.plaintext import warn_once
from eventlib.personal.master import FileMaster
from eventlib.personal.opening import personal_options
from eventlib.personal.postgres_store import BoundedConnection, PostgresKeyStore
from eventlib.personal.ring import KeyRing, erase
from eventlib.personal.secret_file import create_secret
from eventlib.personal.store import KeyRow, new_row
from tests.postgres import PASSWORD, USER, Postgres

_schemas = count()


@pytest.fixture
def url(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    schema = f"postgres_keys_{next(_schemas)}"
    postgres.run(f"CREATE SCHEMA {schema}")
    return f"{postgres.url}?options=-csearch_path%3D{schema}"


@pytest.fixture
def store(url: str) -> Iterator[PostgresKeyStore]:
    found = PostgresKeyStore(url, create=True)
    yield found
    found.close()


def key(subject: str) -> KeyRow:
    return new_row(subject, os.urandom(92))


def is_destroyed(row: KeyRow | None) -> bool:
    return row is not None and row.erased_ms is not None and set(row.wrapped) == {0}


def test_a_server_that_is_killed_after_the_key_was_destroyed(
    postgres: Postgres, store: PostgresKeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    (row,) = store.add_all([key("p1")])
    vacuum = store._vacuum  # noqa: SLF001  the step between what is committed and what is swept up

    def killed() -> None:
        postgres.kill()
        vacuum()

    with monkeypatch.context() as patched:
        patched.setattr(store, "_vacuum", killed)
        with pytest.raises(LogUnavailable):
            store.erase(new_row("p1"), 1)
    postgres.start()
    assert is_destroyed(store.of_id(row.id))
    assert store.erase(new_row("p1"), 2)
    assert store.erased_after(0) == [("p1", row.id)]
    assert (store.of_subject("p1") or row).erased_ms == 1


def test_what_was_acknowledged_outlives_kills_of_the_server(postgres: Postgres, url: str) -> None:
    added, begun, erased, ended = dict[str, KeyRow](), set[str](), set[str](), Event()

    def work(name: str) -> None:
        store, shuffled = PostgresKeyStore(url, create=True), random.Random(name)
        for number in count():
            if ended.is_set():
                break
            try:
                rows = store.add_all([key(f"{name} {number} {each}") for each in range(20)])
                added.update({row.subject: row for row in rows})
                gone = shuffled.choice(rows).subject
                begun.add(gone)
                store.erase(new_row(gone), 1)
                erased.add(gone)
            except LogUnavailable:
                time.sleep(0.02)
        store.close()

    PostgresKeyStore(url, create=True).close()
    workers = [Thread(target=work, args=(name,)) for name in ("a", "b")]
    for each in workers:
        each.start()
    for round_ in range(5):
        before = len(erased)
        while len(erased) < before + 5:
            time.sleep(0.005)
        time.sleep(random.Random(round_).random() / 50)
        postgres.kill()
        postgres.start()
    ended.set()
    for each in workers:
        each.join()
    store = PostgresKeyStore(url, create=False)
    kept = {row.subject: row for row in store.rows()}
    assert all(kept[subject].id == row.id for subject, row in added.items())
    assert all(is_destroyed(kept[subject]) for subject in erased)
    assert all(kept[subject] == row for subject, row in added.items() if subject not in begun)
    assert {subject for subject, _ in store.erased_after(0)} == {s for s, row in kept.items() if is_destroyed(row)}
    store.close()


def test_while_the_server_is_away_nothing_is_answered_and_then_all_goes_on(
    tmp_path: Path, postgres: Postgres, store: PostgresKeyStore
) -> None:
    create_secret(tmp_path / "master.key")
    ring = KeyRing(store, FileMaster(tmp_path / "master.key"), create=True)
    text = ring.encrypt("p1", "name", "Ada")
    postgres.stop()
    try:
        time.sleep(0.05)
        for _ in range(2):
            with pytest.raises(LogUnavailable, match=r"postgresql://…@127\.0\.0\.1:\d+/catalogue") as caught:
                ring.decrypt(text)
            assert PASSWORD not in str(caught.value)
        with pytest.raises(LogUnavailable):
            erase(store, "p1")
    finally:
        postgres.start()
    assert ring.decrypt(text) == "Ada"


def test_a_server_that_stands_still_is_not_waited_for(
    postgres: Postgres, url: str, store: PostgresKeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BoundedConnection, "patience_s", 0.3)
    (row,) = store.add_all([key("p1")])
    with postgres.paused():
        began = time.monotonic()
        with pytest.raises(LogUnavailable, match="timeout"):
            store.of_subject("p1")
        assert time.monotonic() - began < 2
    store.erasures()  # so that it has a connection
    with postgres.paused(), pytest.raises(LogUnavailable, match="timeout"):
        store.erase(new_row("p1"), 1)
    other = PostgresKeyStore(url, create=False)
    assert other.of_id(row.id) == row
    assert store.erase(new_row("p1"), 2)
    other.close()


def test_the_table_is_vacuumed_when_an_erasure_returns(postgres: Postgres, store: PostgresKeyStore) -> None:
    store.add_all([key(f"p{number}") for number in range(200)])
    for number in range(50):
        store.erase(new_row(f"p{number}"), 1)
    store.close()
    table = f"pg_stat_all_tables WHERE relname = 'eventlib_subject_keys' AND schemaname = '{schema_of(store)}'"
    ((vacuums,),) = postgres.run(f"SELECT vacuum_count FROM {table}")  # noqa: S608  a test's own
    assert vacuums == "50"


def schema_of(store: PostgresKeyStore) -> str:
    return store.name.rpartition("%3D")[2]


def test_a_server_that_takes_no_writes_is_out_of_reach(postgres: Postgres, url: str, store: PostgresKeyStore) -> None:
    postgres.run(f"ALTER ROLE {USER} SET default_transaction_read_only = on")
    try:
        with pytest.raises(LogUnavailable, match="read-only"):
            PostgresKeyStore(url, create=False)
    finally:
        postgres.run(f"BEGIN READ WRITE; ALTER ROLE {USER} RESET default_transaction_read_only; COMMIT")
    assert store.ring() is None


def test_commits_are_durable_although_the_role_says_otherwise(postgres: Postgres, url: str) -> None:
    postgres.run(f"ALTER ROLE {USER} SET synchronous_commit = off")
    try:
        store = PostgresKeyStore(url, create=True)
        assert store._ask(lambda server: server.execute("SHOW synchronous_commit").fetchone()) == ("on",)  # noqa: SLF001
        store.close()
    finally:
        postgres.run(f"ALTER ROLE {USER} RESET synchronous_commit")


def test_a_role_without_rights_is_told(postgres: Postgres, url: str, store: PostgresKeyStore) -> None:
    schema = schema_of(store)
    postgres.run(f"CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}'; GRANT USAGE ON SCHEMA {schema} TO reader")
    try:
        other = PostgresKeyStore(url.replace(f"{USER}@", "reader@"), create=False)
        with pytest.raises(WiringError, match="has to own the tables"):
            other.ring()
        other.close()
    finally:
        postgres.run("DROP OWNED BY reader; DROP ROLE reader")


def test_what_goes_unencrypted_to_another_machine_is_warned_of(url: str, caplog: pytest.LogCaptureFixture) -> None:
    warn_once.cache_clear()
    with caplog.at_level(logging.WARNING):
        PostgresKeyStore(url, create=True).close()
        assert not caplog.messages
        elsewhere = url.replace("127.0.0.1", "keys.example") + "&hostaddr=127.0.0.1"
        for _ in range(2):
            PostgresKeyStore(elsewhere, create=True).close()
    (message,) = caplog.messages
    assert "sent to keys.example unencrypted" in message
    assert "sslmode=verify-full" in message


@pytest.mark.parametrize(
    "url", [f"postgresql://shop:{PASSWORD}@keys/shop", f"postgresql://keys/shop?user=shop&password={PASSWORD}"]
)
def test_a_password_in_the_url_is_refused_and_not_shown(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENTLIB_PERSONAL_KEYS", url)
    with pytest.raises(WiringError, match="set PGPASSFILE, or PGPASSWORD") as caught:
        personal_options()
    assert PASSWORD not in str(caught.value)
