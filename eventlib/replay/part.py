"""Which part of a replay falls to one process."""

from dataclasses import dataclass

from eventlib.service import Service


@dataclass(frozen=True, slots=True)
class Part:
    """Part `index` of `count`: every so many-th task of each service.

    What has no key cannot be told apart by task, so the tasks of a service that handles keyless events stay together.
    """

    index: int = 0
    count: int = 1

    def has(self, service: Service, partition: int) -> bool:
        """Tell whether a task belongs to this part."""
        together = any(decider.key is None for decider in service.deciders)
        return self.index == (0 if together else partition % self.count)


WHOLE = Part()
