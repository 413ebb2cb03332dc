"""What each key store promises, of whichever kind it is: an SQLite file, or tables in PostgreSQL."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from threading import Thread

import pytest

from eventlib.errors import ContractError, LogUnavailable, WiringError
from eventlib.personal import ERASED, MASKED
from eventlib.personal.copies import back_up, restore
from eventlib.personal.master import FileMaster
from eventlib.personal.opening import find_store, open_store
from eventlib.personal.options import PersonalOptions
from eventlib.personal.ring import KeyRing, StoreMask, erase
from eventlib.personal.secret_file import create_secret
from eventlib.personal.store import KeyRow, KeyStore, NoKeys, new_row
from tests import forked
from tests.postgres import PASSWORD, Postgres

_schemas = count()
HOSTILE = ["p1", "", "a\0b", "naïve \U0001f600", "'; DROP TABLE eventlib_subject_keys; --", "x" * 10_000, "\\x00", "%s"]


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return where a new store is to be made."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'log.keys'}"
    postgres: Postgres = request.getfixturevalue("postgres")
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    schema = f"keys_{next(_schemas)}"
    postgres.run(f"CREATE SCHEMA {schema}")
    return f"{postgres.url}?options=-csearch_path%3D{schema}"


def opened(place: str, *, create: bool = True) -> KeyStore:
    return open_store("memory://", PersonalOptions(personal_keys=place), create=create)


@pytest.fixture
def store(place: str) -> Iterator[KeyStore]:
    found = opened(place)
    yield found
    found.close()


def keys(*subjects: str) -> list[KeyRow]:
    return [new_row(each, os.urandom(92)) for each in subjects]


def test_a_store_that_is_not_there_is_not_made_for_a_reader(place: str) -> None:
    with pytest.raises(NoKeys, match="EVENTLIB_PERSONAL_KEYS"):
        opened(place, create=False)
    assert find_store("memory://", PersonalOptions(personal_keys=place)) is None
    opened(place).close()
    found = find_store("memory://", PersonalOptions(personal_keys=place))
    assert found is not None
    found.close()


def test_the_first_key_of_a_subject_stays(place: str, store: KeyStore) -> None:
    first, second = keys(*HOSTILE), keys(*reversed(HOSTILE))
    assert store.add_all(first) == first
    other = opened(place)
    assert other.add_all(second) == first[::-1]
    for row in first:
        assert other.of_subject(row.subject) == other.of_id(row.id) == row
    assert other.of_subject("p") is other.of_id(b"none") is None
    other.close()


def test_the_first_ring_stays(place: str, store: KeyStore) -> None:
    assert store.ring() is None
    store.set_ring(b"first")
    other = opened(place)
    other.set_ring(b"second")
    assert store.ring() == other.ring() == b"first"
    other.close()


def test_an_erasure_has_a_number_and_keeps_its_time(place: str, store: KeyStore) -> None:
    store.add_all(keys("p1", "p2"))
    other = opened(place)
    assert other.erasures() == 0
    assert store.erase(new_row("p2"), 7)
    assert store.erase(new_row("p2"), 8)
    assert not store.erase(new_row("p9"), 9)
    for each in (store, other):
        p2, p9 = each.of_subject("p2"), each.of_subject("p9")
        assert p2 is not None
        assert p9 is not None
        assert (p2.erased_ms, p2.had_key, set(p2.wrapped)) == (7, True, {0})
        assert (p9.erased_ms, p9.had_key, set(p9.wrapped)) == (9, False, {0})
        assert each.erased_after(0) == [("p2", p2.id), ("p9", p9.id)]
        assert each.erased_after(each.erasures() - 1) == [("p9", p9.id)]
        assert each.erased_after(each.erasures()) == []
    assert store.add_all(keys("p2"))[0].erased_ms == 7
    other.close()


def test_all_keys_are_paged_in_the_order_of_their_ids(store: KeyStore) -> None:
    rows = sorted(store.add_all(keys(*(f"p{n}" for n in range(25)))), key=lambda row: row.id)
    assert store.page(b"", 10) == rows[:10]
    assert store.page(rows[9].id, 10) == rows[10:20]
    assert [*store.rows()] == rows


def test_a_copy_takes_the_place_of_lost_keys_without_who_was_erased(
    tmp_path: Path, place: str, store: KeyStore
) -> None:
    store.set_ring(b"ring")
    rows = store.add_all(keys("kept", "erased before", "erased since", "known to the log"))
    store.erase(new_row("erased before"), 5)
    back_up(store, tmp_path / "copy")
    assert (tmp_path / "copy").stat().st_mode & 0o077 == 0
    with pytest.raises(WiringError, match="exists"):
        back_up(store, tmp_path / "copy")
    late = store.add_all(keys("after the copy", "erased after the copy"))
    for subject in ("erased since", "erased after the copy"):
        store.erase(new_row(subject), 6)
    gone = {subject: store.of_subject(subject) for subject, _ in store.erased_after(0)}
    before = store.erasures()
    assert restore(store, tmp_path / "copy", {"known to the log": None, "never seen": None, **gone}) == 2
    other = opened(place, create=False)
    assert (other.ring(), other.of_subject("kept"), other.of_subject("after the copy")) == (b"ring", rows[0], None)
    times = {row.subject: row.erased_ms for row in other.rows() if row.erased_ms is not None}
    assert times.keys() == gone.keys() | {"known to the log", "never seen"}
    assert (times["erased before"], times["erased since"]) == (5, 6)
    assert all(set(row.wrapped) == {0} for row in other.rows() if row.erased_ms is not None)
    found = other.of_id(late[1].id)
    assert found is not None
    assert found.subject == "erased after the copy"
    assert {subject for subject, _ in other.erased_after(before)} == times.keys()
    other.close()


def test_a_restore_that_fails_leaves_all_as_it_was(store: KeyStore) -> None:
    store.set_ring(b"ring")
    rows = store.add_all(keys("p1", "p2"))

    def broken() -> Iterator[KeyRow]:
        yield from keys("p3", "p4")
        raise ContractError("the copy ends here")

    with pytest.raises(ContractError, match="ends here"):
        store.replace_all(b"other", broken())
    assert (store.ring(), store.erasures(), {*store.rows()}) == (b"ring", 0, {*rows})


def test_a_fork_opens_a_connection_of_its_own(store: KeyStore) -> None:
    rows = store.add_all(keys(*(f"p{number}" for number in range(200))))
    child = os.fork()  # both ask at once: an answer on a shared connection would be the other's
    if not child:
        same = False
        try:
            same = all(store.of_subject(row.subject) == row for row in rows) and bool(store.add_all(keys("new")))
            store.close()
        finally:
            os._exit(0 if same else 1)
    for row in reversed(rows):
        assert store.of_subject(row.subject) == row
    assert os.waitpid(child, 0)[1] == 0
    assert store.of_subject("new")


def ring_of(place: str, master: Path, *, create: bool = True) -> KeyRing:
    return KeyRing(opened(place, create=create), FileMaster(master), create=create)


@pytest.fixture
def master(tmp_path: Path) -> Path:
    create_secret(tmp_path / "master.key")
    return tmp_path / "master.key"


_ENCRYPTS = """
import json, random, sys
from pathlib import Path
from tests.contract.test_key_stores import ring_of
place, master, number = sys.argv[1:]
ring = ring_of(place, Path(master))
people = [f"person {number}" for number in range(100)]
random.Random(number).shuffle(people)
ring.prepare(people[:30])
print(json.dumps({each: ring.encrypt(each, "name", "Ada") for each in people}))
"""


def test_processes_that_make_a_file_at_once_all_open_it(tmp_path: Path) -> None:
    for number in range(12):
        begin = time.monotonic() + 0.01
        children = list[int]()
        for _ in range(6):
            child = os.fork()
            if not child:
                opens = False
                try:
                    while time.monotonic() < begin:
                        pass
                    opened(f"sqlite:///{tmp_path}/{number}.keys", create=True).close()
                    opens = True
                finally:
                    os._exit(0 if opens else 1)
            children.append(child)
        assert [os.waitpid(child, 0)[1] for child in children] == [0] * 6


def test_processes_that_meet_a_subject_at_once_have_one_key(place: str, master: Path) -> None:
    commands = [[sys.executable, "-c", _ENCRYPTS, place, str(master), str(number)] for number in range(4)]
    processes = [forked.Popen(each, stdout=subprocess.PIPE) for each in commands]
    first, *others = (json.loads(each.communicate()[0]) for each in processes)
    assert others == [first] * 3
    assert len(set(first.values())) == 100


def test_processes_that_erase_at_once_are_all_heard(place: str, store: KeyStore) -> None:
    subjects = [f"p{number}" for number in range(60)]
    store.add_all(keys(*subjects[::2]))

    def erase_some(mine: list[str]) -> None:
        own = opened(place)
        for each in mine:
            own.erase(new_row(each), 1)
        own.close()

    seen, watched = set[str](), 0
    threads = [Thread(target=erase_some, args=(subjects[at::3] + subjects[:5],)) for at in range(3)]
    for each in threads:
        each.start()
    while any(each.is_alive() for each in threads) or watched != store.erasures():
        last = store.erasures()
        seen |= {subject for subject, _ in store.erased_after(watched)}
        watched = last
    assert seen == {*subjects}


def test_an_erasure_takes_effect_within_50_ms_and_one_question(place: str, store: KeyStore, master: Path) -> None:
    ring, other = ring_of(place, master), ring_of(place, master, create=False)
    text, plain = ring.encrypt("p1", "name", "Ada"), ring.encrypt("p2", "name", "Bob")
    mask = StoreMask(opened(place, create=False))
    assert (other.decrypt(text), mask.decrypt(text), mask.decrypt("old", "p1")) == ("Ada", MASKED, MASKED)
    erase(store, "p1")
    end = time.monotonic() + 0.05
    while time.monotonic() < end:
        assert other.decrypt(text) in {"Ada", ERASED}
    assert (other.decrypt(text), ring.encrypt("p1", "name", "Ada")) == (ERASED, ERASED)
    assert (other.decrypt(plain), mask.decrypt(text), mask.decrypt("old", "p1")) == ("Bob", ERASED, ERASED)
    for each in (ring, other, mask):
        each.close()


def test_while_the_store_is_out_of_reach_no_key_is_used(
    place: str, master: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = ring_of(place, master)
    text = ring.encrypt("p1", "name", "Ada")

    def away() -> int:
        raise LogUnavailable("the store is away")

    monkeypatch.setattr(ring.store, "erasures", away)
    time.sleep(0.05)
    for use in (partial(ring.decrypt, text), partial(ring.encrypt, "p1", "name", "Ada")):
        for _ in range(2):  # the first failure is no pause for the next
            with pytest.raises(LogUnavailable):
                use()
    monkeypatch.undo()
    assert ring.decrypt(text) == "Ada"
    ring.close()
