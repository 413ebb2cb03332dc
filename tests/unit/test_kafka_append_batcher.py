"""Appends to Kafka wait for the one in flight, and go together; each caller gets its own offsets, or its own error."""

import asyncio
from collections.abc import Sequence

import pytest

from eventlib.errors import ContractError, LogUnavailable
from eventlib.log.kafka.append_batcher import AppendBatch
from eventlib.model.record import Record

REFUSED = b"refused"


class Partition:
    """Where groups are written; `gate` holds back what is being written."""

    def __init__(self) -> None:
        self.groups = list[list[bytes | None]]()
        self.gate = asyncio.Event()
        self.gate.set()
        self._end = 0

    async def write(self, records: Sequence[Record]) -> list[int]:
        await self.gate.wait()
        values = [record.value for record in records]
        self.groups.append(values)
        if REFUSED in values:
            raise ContractError("one of them is refused")
        first, self._end = self._end, self._end + len(records)
        return [*range(first, self._end)]


def records(*values: bytes) -> list[Record]:
    return [Record("t", 0, -1, 1, b"k", value) for value in values]


async def test_what_is_appended_while_another_is_written_goes_together() -> None:
    partition = Partition()
    appends = AppendBatch(partition.write, "appends")
    partition.gate.clear()
    first = appends.append(records(b"a"))
    await asyncio.sleep(0)
    others = [appends.append(records(b"b", b"c")), appends.append(records(b"d"))]
    partition.gate.set()
    assert await asyncio.gather(first, *others) == [[0], [1, 2], [3]]
    assert partition.groups == [[b"a"], [b"b", b"c", b"d"]]


async def test_a_group_is_no_larger_than_a_batch_may_be_but_for_one_append() -> None:
    partition = Partition()
    appends = AppendBatch(partition.write, "appends", most_bytes=2_000)
    sizes = [appends.append(records(value)) for value in (b"a", b"b", b"c" * 3_000, b"d")]
    assert await asyncio.gather(*sizes) == [[0], [1], [2], [3]]
    assert [len(group) for group in partition.groups] == [2, 1, 1]


async def test_an_append_that_is_refused_is_refused_alone() -> None:
    partition = Partition()
    appends = AppendBatch(partition.write, "appends")
    made = [appends.append(records(value)) for value in (b"a", REFUSED, b"b")]
    found = await asyncio.gather(*made, return_exceptions=True)
    assert found[0] == [0]
    assert isinstance(found[1], ContractError)
    assert found[2] == [1]


async def test_an_append_that_was_cancelled_before_its_turn_is_not_written() -> None:
    partition = Partition()
    appends = AppendBatch(partition.write, "appends")
    made = [appends.append(records(value)) for value in (b"a", b"b")]
    made[0].cancel()
    assert await made[1] == [0]
    assert partition.groups == [[b"b"]]


async def test_an_act_has_its_turn_alone_between_groups() -> None:
    partition = Partition()
    appends = AppendBatch(partition.write, "appends")

    async def act() -> None:
        partition.groups.append([])

    made = [appends.append(records(b"a")), appends.alone(act), appends.append(records(b"b"))]
    assert await asyncio.gather(*made) == [[0], [], [1]]
    assert partition.groups == [[b"a"], [], [b"b"]]


async def test_who_waits_when_the_log_is_closed_learns_that_the_outcome_is_unknown() -> None:
    partition = Partition()
    appends = AppendBatch(partition.write, "appends")
    partition.gate.clear()
    writing = appends.append(records(b"a"))
    await asyncio.sleep(0)
    waiting = appends.append(records(b"b"))
    await appends.close()
    for each in (writing, waiting):
        with pytest.raises(LogUnavailable, match="the log was closed"):
            await each
    assert partition.groups == []
