"""The suite that every store has to pass, also one that another process writes.

class TestMyStores(StoreContract):
    def open_stores(self, place: Path) -> Stores:
        return MyStores(place)
"""
# ruff: noqa: S101, PLR2004  a test speaks in asserts, and its numbers are its point

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from eventlib.errors import OwnershipLost
from eventlib.state.base import Store, Stores

LOG = "the log's id"


class StoreContract:
    """Subclass this with `open_stores`, and pytest tries to break each promise of `eventlib.state.base`."""

    durable = True
    """Whether the stores of a place are there again after it was closed."""

    place: Path

    def open_stores(self, place: Path) -> Stores:
        """Open the stores of a place of the test's own: an adapter's suite says how."""
        raise NotImplementedError(
            f"{type(self).__name__} has to say how stores are opened: define open_stores({place})"
        )

    @pytest.fixture
    def stores(self, tmp_path: Path) -> Iterator[Stores]:
        """Open stores without content."""
        self.place = tmp_path
        stores = self.open_stores(tmp_path)
        yield stores
        stores.close()

    def reopened(self, stores: Stores, epoch: int = 2) -> tuple[Stores, Store]:
        """Close the stores, and open them and the first task's store again."""
        if not self.durable:
            pytest.skip("these stores do not outlive their process")
        stores.close()
        again = self.open_stores(self.place)
        return again, again.open("s", 0, epoch, LOG)

    def test_an_empty_store(self, stores: Stores) -> None:
        """It has no keys, and its checkpoint is 0."""
        store = stores.open("s", 0, 1, LOG)
        assert store.checkpoint == 0
        assert store.get("k") is None
        assert list(store.scan("")) == []

    def test_what_was_written_is_read(self, stores: Stores) -> None:
        """None deletes, empty bytes do not."""
        store = stores.open("s", 0, 1, LOG)
        store.write({"k": b"1", "gone": b"1", "empty": b"", "größe-☃": b"\x00\xff"}, 4)
        store.write({"k": b"2", "gone": None, "never": None}, 7)
        assert store.checkpoint == 7
        assert (store.get("k"), store.get("gone"), store.get("empty")) == (b"2", None, b"")
        assert store.get("größe-☃") == b"\x00\xff"
        store.write({"k": None}, 8)
        assert store.get("k") is None

    def test_scan_is_in_key_order(self, stores: Stores) -> None:
        """It knows where a prefix ends."""
        store = stores.open("s", 0, 1, LOG)
        store.write({"a/1": b"1", "a/3": b"3", "a/5": b"5", "b/1": b"x", "a": b"short", "a0": b"x"}, 1)
        store.write({"a/2": b"2", "a/3": None, "a/4": b"4", "a/5": b"new", "a/\U0010ffff": b"last", "A/1": b"x"}, 2)
        expected = [("a/1", b"1"), ("a/2", b"2"), ("a/4", b"4"), ("a/5", b"new"), ("a/\U0010ffff", b"last")]
        assert list(store.scan("a/")) == expected
        assert list(store.scan("a/")) == expected
        assert [key for key, _ in store.scan("")] == sorted(key for key, _ in store.scan(""))

    def test_writing_while_scanning(self, stores: Stores) -> None:
        """What was there all the time comes once, in order."""
        store = stores.open("s", 0, 1, LOG)
        store.write({f"{i:05}": b"x" for i in range(0, 4_000, 2)}, 1)
        seen = list[str]()
        for i, (key, _) in enumerate(store.scan("0")):
            seen.append(key)
            if i % 100 == 0:
                store.write({f"{i:05}": b"y", f"{3_999 - i:05}": b"z"}, 2 + i)
        assert seen == sorted(set(seen))
        assert {f"{i:05}" for i in range(0, 4_000, 2)} <= {*seen}

    def test_tasks_do_not_meet(self, stores: Stores) -> None:
        """Neither partitions nor services share keys or checkpoints."""
        places = [("s", 0), ("s", 1), ("t", 0)]
        open_stores = [stores.open(service, partition, 1, LOG) for service, partition in places]
        for i, store in enumerate(open_stores):
            store.write({"k": b"%d" % i, f"k{i}": b"x"}, i + 1)
        for i, store in enumerate(open_stores):
            assert (store.get("k"), store.checkpoint) == (b"%d" % i, i + 1)
            assert [key for key, _ in store.scan("k")] == ["k", f"k{i}"]

    def test_it_is_there_again(self, stores: Stores) -> None:
        """Keys and checkpoint belong together."""
        stores.open("s", 0, 1, LOG).write({"k": b"1"}, 5)
        again, store = self.reopened(stores)
        assert (store.get("k"), store.checkpoint) == (b"1", 5)
        again.close()

    def test_clear_forgets_everything(self, stores: Stores) -> None:
        """Also after opening it again; other tasks keep theirs."""
        store, other = stores.open("s", 0, 1, LOG), stores.open("s", 1, 1, LOG)
        other.write({"k": b"other"}, 3)
        store.write({"k": b"1"}, 5)
        store.write({"l": b"1"}, 6)
        store.clear()
        assert (store.checkpoint, store.get("k"), list(store.scan(""))) == (0, None, [])
        assert other.get("k") == b"other"
        store.write({"m": b"1"}, 1)
        again, store = self.reopened(stores)
        assert (store.checkpoint, list(store.scan(""))) == (1, [("m", b"1")])
        again.close()

    def test_another_logs_store_comes_back_empty(self, stores: Stores) -> None:
        """Also when that log's epoch is an older one."""
        stores.open("s", 0, 9, LOG).write({"k": b"1"}, 5)
        store = stores.open("s", 0, 1, "another log")
        assert (store.checkpoint, store.get("k")) == (0, None)

    def test_an_older_owner_cannot_write(self, stores: Stores) -> None:
        """Its writes are refused; the new owner's values stand."""
        old = stores.open("s", 0, 1, LOG)
        old.write({"k": b"old"}, 5)
        new = stores.open("s", 0, 2, LOG)
        assert (new.get("k"), new.checkpoint) == (b"old", 5)
        new.write({"k": b"new"}, 6)
        with pytest.raises(OwnershipLost, match="'s'"):
            old.write({"zombie": b"1"}, 99)
        with pytest.raises(OwnershipLost):
            old.clear()
        old.close()
        assert (new.get("k"), new.get("zombie"), new.checkpoint) == (b"new", None, 6)
        with pytest.raises(OwnershipLost):
            stores.open("s", 0, 1, LOG)

    def test_a_copy_is_where_the_next_owner_begins(self, stores: Stores) -> None:
        """It goes on from what an owner has left here, and that owner ends it."""
        before = stores.open("s", 0, 3, LOG)
        before.write({"k": b"1"}, 5)
        before.close()
        copy = stores.open_copy("s", 0, LOG)
        if copy is None:
            pytest.skip("processes share these stores, so that there are no copies")
        assert (copy.checkpoint, copy.get("k")) == (5, b"1")
        copy.write({"k": b"2", "l": b"1"}, 9)
        owner = stores.open("s", 0, 4, LOG)
        assert (owner.checkpoint, dict(owner.scan(""))) == (9, {"k": b"2", "l": b"1"})
        with pytest.raises(OwnershipLost):
            copy.write({"k": b"3"}, 10)
        copy.close()
        owner.write({"k": b"4"}, 11)
        assert (owner.checkpoint, owner.get("k")) == (11, b"4")
        owner.close()
        new = stores.open_copy("s", 0, "another log")
        assert new is not None
        assert (new.checkpoint, dict(new.scan(""))) == (0, {})

    def test_a_lost_owner_does_not_hold_the_others_up(self, stores: Stores) -> None:
        """The tasks of the same service go on."""
        old, neighbour = stores.open("s", 0, 1, LOG), stores.open("s", 1, 1, LOG)
        stores.open("s", 0, 2, LOG)
        with pytest.raises(OwnershipLost):
            old.write({"zombie": b"1"}, 99)
        for i in range(200):
            neighbour.write({f"k{i}": b"x" * 20}, i + 1)
        assert neighbour.get("k0") == neighbour.get("k199") == b"x" * 20

    @pytest.mark.parametrize("seed", range(3))
    def test_it_behaves_like_a_dict(self, stores: Stores, seed: int) -> None:
        """Through random writes, deletions, scans and reopenings."""
        random = Random(seed)  # noqa: S311  a test's seeded choice
        store, model = stores.open("s", 0, 1, LOG), dict[str, bytes]()
        for checkpoint in range(1, 300):
            changes = {f"{random.randrange(200):03}": _some(random) for _ in range(random.randrange(30))}
            store.write(changes, checkpoint)
            model |= {key: value for key, value in changes.items() if value is not None}
            for key in [key for key, value in changes.items() if value is None]:
                model.pop(key, None)
            prefix = str(random.randrange(2))
            assert list(store.scan(prefix)) == sorted((k, v) for k, v in model.items() if k.startswith(prefix))
            key = f"{random.randrange(200):03}"
            assert store.get(key) == model.get(key)
        assert store.checkpoint == 299
        if self.durable:
            again, store = self.reopened(stores)
            assert (dict(store.scan("")), store.checkpoint) == (model, 299)
            again.close()


def _some(random: Random) -> bytes | None:
    return None if random.random() < 0.3 else random.randbytes(random.randrange(50))
