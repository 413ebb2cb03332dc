"""Filters of sagas that operators share: on the log by name, with who saved them and when."""

from collections.abc import Mapping
from dataclasses import dataclass

from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.operations.shared_notes import SharedNote, SharedNotes

NEWEST = "started_at desc"
_KIND = "saga-filter"
_MOST_NAME = 60


@dataclass(frozen=True, slots=True)
class SagaFilter:
    """A query of sagas under a name, with its order and columns; of one on the log, who saved it, and when (ms since 1970)."""

    name: str
    where: str
    order_by: str = NEWEST
    columns: tuple[str, ...] = ()
    by: str = ""
    at_ms: int = 0

    def narrowed(self, where: str) -> str:
        """Return its query with further conditions."""
        return " and ".join(f"({each})" for each in (self.where, where) if each.strip())


class SagaFilters:
    """The filters on a log. Raises: as `SharedNotes` does."""

    def __init__(self, log: EventLog) -> None:
        self._notes = SharedNotes(log.port)

    async def all(self) -> Mapping[str, SagaFilter]:
        """Return all filters by name, in order."""
        return {name: _read(name, note) for name, note in (await self._notes.all(_KIND)).items()}

    async def named(self, name: str) -> SagaFilter:
        """Return a filter. Raises: ContractError, naming those that there are."""
        every = await self.all()
        if name not in every:
            raise ContractError(f"filter {name!r} is not saved: those that are: {', '.join(every) or 'none'}")
        return every[name]

    async def save(self, content: SagaFilter, by: str) -> None:
        """Save a filter, in the place of the one with its name. Raises: ContractError for a name that is empty or long."""
        if not 1 <= len(content.name.strip()) <= _MOST_NAME:
            raise ContractError(f"name: give the filter a name of 1 to {_MOST_NAME} characters")
        value = {"where": content.where, "order_by": content.order_by, "columns": [*content.columns]}
        await self._notes.put(_KIND, content.name.strip(), value, by)

    async def rename(self, name: str, to: str, by: str) -> None:
        """Save a filter under another name. Raises: ContractError when there is none, or one of that name already."""
        content, every = await self.named(name), await self.all()
        if to.strip() in every:
            raise ContractError(f"name: there is a filter {to.strip()!r} already")
        await self.save(SagaFilter(to, content.where, content.order_by, content.columns), by)
        await self._notes.delete(_KIND, name, by)

    async def delete(self, name: str, by: str) -> None:
        """Delete a filter, if it is there."""
        await self._notes.delete(_KIND, name, by)


def _read(name: str, note: SharedNote) -> SagaFilter:
    value = note.value if isinstance(note.value, dict) else {}
    columns = value.get("columns")
    return SagaFilter(
        name,
        str(value.get("where", "")),
        str(value.get("order_by", NEWEST)),
        tuple(map(str, columns)) if isinstance(columns, list) else (),
        note.by,
        note.at_ms,
    )
