"""Looks from time to time whether the inputs of services are still the topics that they were when the process began."""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

from eventlib.errors import RetryableError
from eventlib.log.base import Log, TopicIdentity
from eventlib.model.service import Service
from eventlib.runtime.runner import TaskRunner

_log = logging.getLogger("eventlib.runtime")


class TopicWatch:
    """Compares identities and partition counts. `faults` has what keeps services from reading a topic whole, by name."""

    def __init__(self, log: Log, services: Sequence[Service], runners: Callable[[], Collection[TaskRunner]]) -> None:
        self.faults: Mapping[str, str] = {}
        self._log = log
        self._partitions = {topic.name: topic.partitions for each in services for topic in each.inputs}
        self._runners = runners

    async def run(self, every_s: float) -> None:
        """Look until cancelled; a log that is away is asked again later."""
        while True:
            await asyncio.sleep(every_s)
            with suppress(RetryableError):
                await self.look()

    async def look(self) -> None:
        """Look once: new faults are logged, and tasks whose topic is another one compare it. Raises: LogUnavailable."""
        there = await self._log.identities(self._partitions)
        faults = {name: fault for name, count in self._partitions.items() if (fault := fault_of(name, count, there))}
        for name in faults.keys() - self.faults.keys():
            _log.error("%s", faults[name])
        self.faults = faults
        for runner in self._runners():
            runner.compare(there)


def fault_of(name: str, declared: int, there: Mapping[str, TopicIdentity]) -> str:
    """Return why a topic cannot be read whole as declared; empty when it can."""
    now = there.get(name)
    if now is None:
        return f"topic {name} is not on the log any more: its readers wait; create it again, or stop the services"
    if now.partitions == declared:
        return ""
    beyond = f"what is written to partitions {declared} to {now.partitions - 1} is read by no task"
    return (
        f"topic {name} has {now.partitions} partitions on the log, and is declared with {declared}: "
        f"{beyond if now.partitions > declared else 'some partitions are gone'}, and keys have moved to other ones. "
        f"Partition counts do not change in place: declare a new topic (for example {name + '.v2'!r}), replay this one into "
        "it, and move its consumers and producers over"
    )
