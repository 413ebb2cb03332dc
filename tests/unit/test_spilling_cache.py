"""States of a replay that do not fit into memory: none is lost, and each is there once."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from eventlib import Decider
from eventlib.replay.spilling_cache import IN_MEMORY, Spill, SpillingCache, spilling_caches, state_cache
from eventlib.runtime.keyed_state import KeyedState
from services import shop
from services.stock.state import Shelf
from tests.apps.people import Card

SHELF = shop.decider("shelf")


@pytest.fixture
def spill() -> Iterator[Spill]:
    it = Spill()
    yield it
    it.close()


def shelf(units: int) -> KeyedState:
    return KeyedState(Shelf(on_hand=units), sequence=units)


async def filled(spill: Spill, count: int) -> SpillingCache[KeyedState]:
    """Return a cache with so many keys, of which it has at most six in memory."""
    await spill.prepare([SHELF])
    cache = state_cache(SHELF, spill, 3)
    for number in range(count):
        cache.get(f"sku-{number}")
        cache.put(f"sku-{number}", shelf(number))
    return cache


async def test_what_is_spilled_is_read_back(spill: Spill) -> None:
    cache = await filled(spill, 20)
    assert [cache.get(f"sku-{number}") for number in range(20)] == [shelf(number) for number in range(20)]
    assert cache.get("another") == KeyedState()


async def test_personal_fields_are_read_back_and_are_not_on_disk(spill: Spill) -> None:
    decider: Decider[Card] = Decider("card", state=Card, key="key")
    await spill.prepare([decider])
    ada = KeyedState(Card("7", "Ada Lovelace"), sequence=1)
    cache = state_cache(decider, spill, 1)
    cache.put("7", ada)
    for other in "123":
        cache.get(other)
    assert [*cache.all()] == [("7", ada)]
    (row,) = spill._file.execute("SELECT * FROM entries").fetchall()  # noqa: SLF001  no one else can see the file
    assert b"Lovelace" not in b"".join(each for each in row if isinstance(each, bytes))


def test_all_deciders_together_keep_no_more_in_memory_than_one_alone(spill: Spill) -> None:
    caches = spilling_caches(shop.deciders, spill).values()
    assert 0 < sum(cache._most for cache in caches) <= IN_MEMORY  # noqa: SLF001  no one else can see what it keeps


async def test_all_are_given_once_as_they_were_put_last_wherever_they_are(spill: Spill) -> None:
    cache = await filled(spill, 20)
    for number in (0, 1, 19):
        cache.get(f"sku-{number}")
        cache.put(f"sku-{number}", shelf(100 + number))
    found = [*cache.all()]
    expected = {f"sku-{number}": shelf(number) for number in range(20)}
    expected |= {f"sku-{number}": shelf(100 + number) for number in (0, 1, 19)}
    assert len(found) == 20
    assert dict(found) == expected


async def test_what_is_gone_stays_gone_after_it_was_spilled(spill: Spill) -> None:
    cache = await filled(spill, 20)
    cache.get("sku-3")
    cache.put("sku-3", KeyedState())
    for number in range(10, 20):
        cache.get(f"sku-{number}")
    assert cache.get("sku-3") == KeyedState()
    assert "sku-3" not in dict(cache.all())


@dataclass
class Counted:
    """An entry that is changed in place."""

    count: int = 0

    @property
    def is_gone(self) -> bool:
        return self.count == 0


class CountedCoder:
    def empty(self) -> Counted:
        return Counted()

    def pack(self, _key: str, entry: Counted) -> bytes:
        return str(entry.count).encode()

    def unpack(self, _key: str, packed: bytes) -> Counted:
        return Counted(int(packed))


def test_what_is_changed_in_place_is_there_however_often_it_leaves_the_memory(spill: Spill) -> None:
    cache = SpillingCache("counts", CountedCoder(), spill, 2)
    for _ in range(3):
        for number in range(9):
            cache.get(f"key-{number}").count += number
    assert {key: entry.count for key, entry in cache.all()} == {f"key-{number}": 3 * number for number in range(1, 9)}
    assert cache.get("key-0").is_gone
