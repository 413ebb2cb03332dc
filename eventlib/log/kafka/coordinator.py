"""A member of a consumer group that assigns a service's tasks, and detects members that are gone."""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from aiokafka.protocol.commit import OffsetCommitRequest
from aiokafka.protocol.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    MemberAssignment,
    ProtocolMetadata,
    SyncGroupRequest,
)

from eventlib.errors import EventlibError, LogUnavailable, WiringError
from eventlib.log.base import TopicPartition
from eventlib.log.kafka.assignment import SubscribedMember, assign, stand_by
from eventlib.log.kafka.client import GROUP, Cluster
from eventlib.log.kafka.failures import STALE_COORDINATOR, Code, Transient, failure, name_of
from eventlib.log.kafka.heartbeats import BEATS, SpareHeart, Standing

_KIND = "consumer"  # so that Kafka's own tools can show the group
_ASSIGNOR = "eventlib-tasks"
_VERSION = 0
_NO_MEMBER_ID = ""
_KEPT = -1  # the brokers' default retention of committed offsets
_GONE = frozenset({Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION})


class _Expelled(Exception):
    """The group continues without this member."""


class _Rebalance(Exception):
    """The group rebalances."""


class GroupMember:
    """One process in the group `<application>.<service>`.

    The group assigns tasks; safety does not depend on it, and the offsets committed to it are for monitoring only. A
    member keeps running its tasks during a rebalance, and then gives up those assigned to others. `assigned` are the
    tasks to run, `stands_by` those to keep a standby copy of, and `living` the member processes; `on_change` is called
    when the assignment changes. `runs` and `copies` return the member's current tasks and standby copies, `progress`
    the next offsets of their inputs. `standbys` is the number of standby copies of each task.
    """

    def __init__(self, cluster: Cluster, service: str, tasks: int, process: str, standbys: int = 0) -> None:
        self.assigned: frozenset[int] = frozenset()
        self.stands_by: frozenset[int] = frozenset()
        self.living: frozenset[str] = frozenset()
        self.confirmed_at = float("-inf")
        self.standing: Standing | None = None
        self.beaten_at = float("-inf")
        self.runs: Callable[[], Iterable[int]] = tuple
        self.copies: Callable[[], Iterable[int]] = tuple
        self.progress: Callable[[], Mapping[TopicPartition, int]] = dict
        self.on_change: Callable[[], None] = lambda: None
        self.on_expelled: Callable[[], None] = lambda: None
        self._cluster = cluster
        self._service = service
        self._tasks = tasks
        self._process = process
        self._standbys = standbys
        options = cluster.options
        self._name = options.group(service)
        self._topic = cluster.physical(f"{service}.changelog")
        self._lane = f"group {self._name} {id(self)}"  # its own: a rebalance blocks all other responses of a connection
        self._member_id = _NO_MEMBER_ID
        self._generation = -1
        self._reported = dict[TopicPartition, int]()
        self._retires = False
        self._retiring = asyncio.Event()
        self._retired = asyncio.Event()

    async def run(self) -> None:
        """Stay a member until cancelled. Raises: LogDenied, WiringError.

        While the process's loop is blocked, a thread sends its heartbeats.
        """
        spare = SpareHeart(self._cluster, self)
        try:
            while True:
                try:
                    await self._join()
                    await self._beat()
                except _Rebalance:
                    continue
                except _Expelled:
                    self._member_id, self._generation, self.standing = _NO_MEMBER_ID, -1, None
                    self._assigned(frozenset())
                    self.on_expelled()
                except (Transient, LogUnavailable):
                    await self._find_coordinator()
        finally:
            spare.stop()

    async def confirm(self) -> bool:
        """Ask the group whether this member's tasks are still assigned to it."""
        try:
            await self._heartbeat()
        except (Transient, _Rebalance, _Expelled, EventlibError):
            return False
        return True

    async def retire(self) -> None:
        """Let the group assign this member's tasks to others, which wait for them; return when it has."""
        self._retires = True
        self._retiring.set()
        await self._retired.wait()

    async def leave(self) -> None:
        """Leave the group, so that its tasks are reassigned at once. Raises: Transient when it is unreachable."""
        if self._member_id:
            # Not behind an unanswered join request.
            await self._send(LeaveGroupRequest(self._name, self._member_id), f"{self._lane} leaves")
            self._member_id = _NO_MEMBER_ID

    async def _join(self) -> None:
        options = self._cluster.options
        timeout_ms = int(options.session_timeout_s * 1000)
        rejoins_ms = int(
            max(options.session_timeout_s, options.max_blocked_s) * 1000
        )  # the group waits for who is blocked
        self.standing = None
        self._retiring.clear()
        retires = self._retires
        asked_at = asyncio.get_running_loop().time()
        answer = await self._send(
            JoinGroupRequest(
                self._name, timeout_ms, rejoins_ms, self._member_id, None, _KIND, [(_ASSIGNOR, self._metadata())]
            )
        )
        if answer.error_code == Code.MEMBER_ID_REQUIRED:
            self._member_id = answer.member_id
            raise _Rebalance
        self._refuse(answer.error_code, "joining")
        self._member_id, self._generation = answer.member_id, answer.generation_id
        assignments = self._assign_all(answer.members) if answer.leader_id == answer.member_id else []
        answer = await self._send(SyncGroupRequest(self._name, self._generation, self._member_id, None, assignments))
        self._refuse(answer.error_code, "receiving an assignment")
        self.confirmed_at = asked_at
        self.beaten_at = asyncio.get_running_loop().time()
        self.standing = Standing(self._name, self._generation, self._member_id)
        if answer.member_assignment:
            assignment = MemberAssignment.decode(answer.member_assignment)
            metadata = json.loads(assignment.user_data or b"{}")
            self.living = frozenset(metadata.get("living", ()))
            self._assigned(
                frozenset(task for _, tasks in assignment.assignment for task in tasks),
                frozenset(metadata.get("stands_by", ())),
            )
        else:
            self._assigned(frozenset())
        if retires:
            self._retired.set()

    def _metadata(self) -> bytes:
        about = {
            "runs": sorted(self.runs()),
            "generation": self._generation,
            "process": self._process,
            "copies": sorted(self.copies()),
            "standbys": self._standbys,
            "retires": self._retires,
        }
        encoded: bytes = ProtocolMetadata(_VERSION, [self._topic], json.dumps(about).encode()).encode()
        return encoded

    def _assign_all(self, members: Sequence[tuple[str, str | None, bytes]]) -> list[tuple[str, bytes]]:
        found, living, standbys = list[SubscribedMember](), list[str](), 0
        for name, _, metadata in members:
            about = json.loads(ProtocolMetadata.decode(metadata).user_data or b"{}")
            living.append(about.get("process", ""))
            if about.get("retires", False):
                continue  # its tasks are free once it releases them
            found.append(
                SubscribedMember(name, about.get("runs", ()), about.get("generation", -1), about.get("copies", ()))
            )
            standbys = max(standbys, about.get("standbys", 0))
        runs = assign(self._tasks, found)
        copies = stand_by(runs, found, standbys)
        user_data = {name: json.dumps({"living": living, "stands_by": copies[name]}).encode() for name in runs}
        return [
            (name, MemberAssignment(_VERSION, [(self._topic, tasks)], user_data[name]).encode())
            for name, tasks in runs.items()
        ]

    async def _beat(self) -> None:
        pause_s = self._cluster.options.session_timeout_s / BEATS
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._retiring.wait()
                    raise _Rebalance
            await self._heartbeat()
            await self._report()

    async def _heartbeat(self) -> None:
        asked_at = self.beaten_at = asyncio.get_running_loop().time()
        answer = await self._send(HeartbeatRequest(self._name, self._generation, self._member_id))
        self._refuse(answer.error_code, "sending a heartbeat")
        self.confirmed_at = asked_at

    async def _report(self) -> None:
        """Commit the tasks' offsets for monitoring tools; nothing resumes from them."""
        changed = {tp: offset for tp, offset in self.progress().items() if self._reported.get(tp) != offset}
        if not changed:
            return
        by_topic = dict[str, list[tuple[int, int, str]]]()
        for (topic, partition), offset in changed.items():
            by_topic.setdefault(self._cluster.physical(topic), []).append((partition, offset, ""))
        message = OffsetCommitRequest(self._name, self._generation, self._member_id, _KEPT, [*by_topic.items()])
        answer = await self._send(message)
        codes = {code for _, partitions in answer.topics for _, code in partitions}
        for code in codes & {*_GONE, Code.REBALANCE_IN_PROGRESS}:
            self._refuse(code, "committing offsets")
        if codes == {Code.NONE}:
            self._reported |= changed

    async def _send(self, message: Any, lane: str | None = None) -> Any:
        node = await self._cluster.coordinator(GROUP, self._name)
        return await self._cluster.send(node, message, lane or self._lane)

    async def _find_coordinator(self) -> None:
        self._cluster.forget_coordinator(GROUP, self._name)
        with suppress(LogUnavailable):  # appends report the same error to their callers
            await self._cluster.refresh()
        await asyncio.sleep(self._cluster.options.session_timeout_s / BEATS / 4)

    def _refuse(self, code: int, what: str) -> None:
        if code in _GONE:
            raise _Expelled
        if code == Code.REBALANCE_IN_PROGRESS:
            raise _Rebalance
        if code in STALE_COORDINATOR:
            self._cluster.forget_coordinator(GROUP, self._name)
        if code:
            error = failure(code, f"{what} in group {self._name}")
            if isinstance(error, LogUnavailable):
                raise WiringError(
                    f"group {self._name} cannot assign {self._service}'s tasks: {name_of(code)}; is it used by another "
                    "application, or is EVENTLIB_KAFKA_SESSION_TIMEOUT_S outside the brokers' limits?"
                )
            raise error

    def _assigned(self, tasks: frozenset[int], stands_by: frozenset[int] = frozenset()) -> None:
        if (tasks, stands_by) != (self.assigned, self.stands_by):
            self.assigned, self.stands_by = tasks, stands_by
            self.on_change()
