"""Copies of tasks that other processes run, kept up to date, so that a takeover reads next to nothing."""

import asyncio
import logging
from collections.abc import Callable

from eventlib.errors import LogCorrupt, OwnershipLost, Retryable
from eventlib.log.port import Membership
from eventlib.runtime.host import Host
from eventlib.runtime.restoring import catch_up, take_in
from eventlib.runtime.state import TaskState
from eventlib.service import Service

_log = logging.getLogger(__name__)
_LOOK_S = 0.05


class Standbys:
    """The copies that a process keeps of one service's tasks: those that its membership names.

    `works` tells whether this process still works on a task itself: its store has one user at a time.
    """

    def __init__(self, service: Service, host: Host, membership: Membership, works: Callable[[int], bool]) -> None:
        self._service = service
        self._host = host
        self._membership = membership
        self._works = works
        self._copies = dict[int, asyncio.Task[None]]()

    async def run(self) -> None:
        """Keep copies until cancelled. Raises: what makes a copy impossible for good."""
        try:
            while True:
                wanted = await self._membership.stands_by(self._copies.keys())
                await self._end([self._copies.pop(partition) for partition in self._copies.keys() - {*wanted}])
                for partition in {*wanted} - self._copies.keys():
                    copying = self._copy_patiently(partition)
                    self._copies[partition] = asyncio.create_task(copying, name=f"copy of {partition}")
        finally:
            await self._end([*self._copies.values()])

    async def _end(self, tasks: list[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _copy_patiently(self, partition: int) -> None:
        while True:
            try:
                await self._copy(partition)
            except OwnershipLost:
                return  # this process has the task itself by now
            except Retryable as error:
                _log.warning("the copy of %s/%s waits: %s", self._service.name, partition, error)
                await asyncio.sleep(self._host.config.retry_pause_s)
            except LogCorrupt as error:
                _log.error("there is no copy of %s/%s here: %s", self._service.name, partition, error)
                return
            except Exception:  # noqa: BLE001  nobody waits for a copy, and its task does without: it is said here
                _log.exception("there is no copy of %s/%s here", self._service.name, partition)
                return
            else:
                return

    async def _copy(self, partition: int) -> None:
        while self._works(partition):  # noqa: ASYNC110  its end has no event, and is moments away
            await asyncio.sleep(_LOOK_S)
        host, service = self._host, self._service
        store = host.stores.open_copy(service.name, partition, host.log.port.log_id)
        if store is None:
            return
        deciders = {decider.name: decider for decider in service.deciders}
        state = TaskState(store, host.log.codec, deciders, cached_entries=1)
        try:
            await catch_up(state, service, partition, host)
            await self._follow(state, (service.changelog.name, partition))
        finally:
            store.close()

    async def _follow(self, state: TaskState, place: tuple[str, int]) -> None:
        host = self._host
        reader = host.log.port.reader({place: state.store.checkpoint})
        try:
            while True:
                records = await reader.poll(host.config.restore_chunk)
                if reader.position(place) != state.store.checkpoint:
                    await take_in(state, records, reader.position(place), host.log.codec)
        finally:
            await reader.close()
