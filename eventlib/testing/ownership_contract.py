"""What a log promises about who may append for a service. Part of `eventlib.testing.log_contract`."""
# ruff: noqa: S101, PLR2004  a test speaks in asserts, and its numbers are its point

import asyncio
from collections.abc import Mapping

import pytest

from eventlib.errors import OwnershipLost
from eventlib.log.base import Claim, Log, Membership
from eventlib.testing.log_fixture import PATIENCE_S, LogFixture, record, values


async def changed(member: Membership, held: Mapping[int, Claim]) -> Mapping[int, Claim]:
    """Wait for a change, for as long as a slow machine may take."""
    return await asyncio.wait_for(member.moved(held), PATIENCE_S)


async def until_owns(member: Membership, held: Mapping[int, Claim], partitions: set[int]) -> Mapping[int, Claim]:
    """Wait until a member owns just these partitions."""
    async with asyncio.timeout(PATIENCE_S):
        while held.keys() != partitions:
            held = await member.moved(held)
    return held


class OwnershipContract(LogFixture):
    """Claims and members: one owner at a time, and never none for long."""

    async def test_the_newest_claim_can_append(self, log: Log) -> None:
        """Several times, together with claims of other services and partitions, and beside unclaimed appends."""
        first, other = await log.seize("s", 0), await log.seize("t", 0)
        await log.seize("s", 1)
        for claim in (first, other, None, first):
            await log.append([record("a", b"x")], claim)
        assert len(await values(log, "a", 0)) == 4

    async def test_an_older_claim_cannot_append(self, log: Log) -> None:
        """Nothing of it is visible, on no topic; the sentence names service and partition."""
        older = await log.seize("s", 0)
        newer = await log.seize("s", 0)
        assert newer.epoch > older.epoch
        for claim in (older, older._replace(epoch=0)):
            with pytest.raises(OwnershipLost, match="'s'"):
                await log.append([record("a", b"no"), record("b", b"no")], claim)
        await log.append([record("a", b"yes")], newer)
        assert await values(log, "a", 0) == [b"yes"]
        assert await values(log, "b", 0) == []

    async def test_a_claim_that_was_never_made_cannot_append(self, log: Log) -> None:
        """Nor one from the future."""
        claim = await log.seize("s", 0)
        for made_up in (claim._replace(epoch=claim.epoch + 1), Claim("nobody", 0, 1), Claim("s", 5, 1)):
            with pytest.raises(OwnershipLost):
                await log.append([record("a", b"no")], made_up)
        assert await values(log, "a", 0) == []

    async def test_a_fenced_append_fails_alone(self, log: Log) -> None:
        """Those that are made at the same time go through."""
        older, newer = await log.seize("s", 0), await log.seize("s", 0)
        claims = [newer, older, None, older, newer]
        appends = [log.append([record("a", b"%d" % i)], claim) for i, claim in enumerate(claims)]
        answers = await asyncio.gather(*appends, return_exceptions=True)
        assert [isinstance(answer, OwnershipLost) for answer in answers] == [False, True, False, True, False]
        assert sorted(value or b"" for value in await values(log, "a", 0)) == [b"0", b"2", b"4"]

    async def test_the_first_member_owns_all_and_the_second_stands_by(self, log: Log) -> None:
        """Nobody else can append for it, and nothing changes as long as it lives."""
        self.only_where_members_stand_by()
        first = await log.join("s", 3)
        owned = await until_owns(first, {}, {0, 1, 2})
        second = await log.join("s", 3)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(second.changed({}), 0.5)
        for partition, claim in owned.items():
            assert (claim.service, claim.partition) == ("s", partition)
            await log.append([record("a", b"x")], claim)
        await second.leave()
        await first.leave()

    async def test_members_share_what_there_is(self, log: Log) -> None:
        """A second one takes its half over, and the first keeps the claims of its own; nobody moves more than that."""
        self.only_where_members_share()
        first, second = await log.join("s", 4), None
        before = await until_owns(first, {}, {0, 1, 2, 3})
        second = await log.join("s", 4)
        taken = await self._until_half(second)
        kept = await until_owns(first, await changed(first, before), {0, 1, 2, 3} - taken.keys())
        assert kept == {partition: before[partition] for partition in kept}
        for claim in (*kept.values(), *taken.values()):
            await log.append([record("a", b"x")], claim)
        for partition in taken:
            with pytest.raises(OwnershipLost):
                await log.append([record("a", b"no")], before[partition])
        await second.leave()
        assert (await until_owns(first, kept, {0, 1, 2, 3})).items() >= kept.items()
        await first.leave()

    async def _until_half(self, member: Membership) -> Mapping[int, Claim]:
        held: Mapping[int, Claim] = {}
        async with asyncio.timeout(PATIENCE_S):
            while len(held) != 2:
                held = await member.moved(held)
        return held

    async def test_what_a_member_gives_back_is_taken_over(self, log: Log) -> None:
        """By the one that stands by; the claims given back are worth nothing any more."""
        first = await log.join("s", 2)
        before = await until_owns(first, {}, {0, 1})
        second = await log.join("s", 2)
        await first.leave()
        after = await until_owns(second, {}, {0, 1})
        for partition in (0, 1):
            assert not first.was_lost(before[partition])
            assert not second.was_lost(after[partition])
            assert after[partition].epoch > before[partition].epoch
            with pytest.raises(OwnershipLost):
                await log.append([record("a", b"no")], before[partition])
            await log.append([record("a", b"yes")], after[partition])
        assert await values(log, "a", 0) == [b"yes", b"yes"]
        await second.leave()

    async def test_leaving_twice_is_leaving(self, log: Log) -> None:
        """The second time does nothing, also not to the next owner."""
        first = await log.join("s", 1)
        await until_owns(first, {}, {0})
        await first.leave()
        second = await log.join("s", 1)
        owned = await until_owns(second, {}, {0})
        await first.leave()
        await log.append([record("a", b"yes")], owned[0])
        await second.leave()

    async def test_a_seized_partition_comes_back_to_its_member(self, log: Log) -> None:
        """The member learns that it has lost it, and owns it again after some seconds; then the seizer is out."""
        member = await log.join("s", 2)
        before = await until_owns(member, {}, {0, 1})
        seized = await log.seize("s", 0)
        with pytest.raises(OwnershipLost):
            await log.append([record("a", b"no")], before[0])
        await log.append([record("a", b"seized")], seized)
        await log.append([record("a", b"other partition")], before[1])
        without = await changed(member, before)
        again = await until_owns(member, without, {0, 1})
        assert again[1] == before[1]
        assert again[0].epoch > seized.epoch
        assert not member.was_lost(again[0])
        with pytest.raises(OwnershipLost):
            await log.append([record("a", b"no")], seized)
        await log.append([record("a", b"again")], again[0])
        assert await values(log, "a", 0) == [b"seized", b"other partition", b"again"]
        await member.leave()

    async def test_members_of_different_services_do_not_meet(self, log: Log) -> None:
        """Each owns its own."""
        one, other = await log.join("s", 1), await log.join("t", 1)
        claims = [(await until_owns(member, {}, {0}))[0] for member in (one, other)]
        for claim in claims:
            await log.append([record("a", b"x")], claim)
        await one.leave()
        await other.leave()

    async def test_another_handle_takes_over_when_one_is_gone(self, log: Log) -> None:
        """One that closed without leaving is as good as dead: its place is filled within seconds."""
        self.only_for_durable_logs()
        dying, living = await self.another_handle(), await self.another_handle()
        before = await until_owns(await dying.join("s", 2), {}, {0, 1})
        await dying.append([record("a", b"1")], before[0])
        standby = await living.join("s", 2)
        if not self.shares_tasks:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(standby.changed({}), 0.3)
        await dying.close()
        after = await until_owns(standby, {}, {0, 1})
        await living.append([record("a", b"2")], after[0])
        with pytest.raises(OwnershipLost):
            await log.append([record("a", b"no")], before[0])
        await self.until_there(log, "a", [b"1", b"2"])
        await standby.leave()

    async def test_of_two_who_join_at_once_one_owns(self, log: Log) -> None:
        """Whichever it is, all partitions have one owner, and its claims are the newest."""
        self.only_for_durable_logs()
        self.only_where_members_stand_by()
        other = await self.another_handle()
        members = await asyncio.gather(log.join("s", 4), other.join("s", 4))
        await asyncio.sleep(0.3)
        owned = [await _now(member) for member in members]
        assert sorted(len(claims) for claims in owned) == [0, 4]
        for claims in owned:
            for claim in claims.values():
                await log.append([record("a", b"x")], claim)
        for member in members:
            await member.leave()

    async def test_two_handles_append_at_once(self, log: Log) -> None:
        """No offset is given twice, none is lost, and each one's records are in its order."""
        self.only_for_durable_logs()
        other = await self.another_handle()

        async def append_some(handle: Log, name: bytes) -> list[int]:
            return [(await handle.append([record("a", b"%s%d" % (name, i))]))[0] for i in range(100)]

        offsets = await asyncio.gather(append_some(log, b"x"), append_some(other, b"y"))
        assert len({*offsets[0], *offsets[1]}) == 200
        there = await values(log, "a", 0)
        for name in (b"x", b"y"):
            assert [v for v in there if v is not None and v.startswith(name)] == [
                b"%s%d" % (name, i) for i in range(100)
            ]


async def _now(member: Membership) -> Mapping[int, Claim]:
    try:
        return await asyncio.wait_for(member.changed({}), 0.5)
    except TimeoutError:
        return {}
