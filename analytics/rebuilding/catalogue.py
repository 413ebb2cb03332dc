"""The tables that are made for an application, in the order in which they can be made."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType

from analytics.addon import modules_of, of_kind
from analytics.audit.application import Application
from analytics.history.building import by_name
from analytics.history.fold import Fold
from analytics.history.tables import FoldTable
from analytics.rebuilding.generic import PLACE, event_tables, saga_tables
from analytics.rebuilding.layout import Fields, fields_of
from analytics.rebuilding.quality import quarantine_table
from analytics.rebuilding.sql_files import sql_tables
from analytics.rebuilding.steps import STEPS, Steps
from analytics.tables import Column, Events, StepFields, Table
from eventlib.errors import WiringError
from eventlib.ground.arguments import did_you_mean
from eventlib.index.tables import is_tabular, step_columns
from eventlib.model.event import Event, contract_of
from eventlib.runtime.records import modules_version

_DEFINITION = 2
"""The version of the generic tables' definitions: tables of another one are rebuilt from the beginning."""


@dataclass(frozen=True)
class Catalogue:
    """The tables of an application in order: each after those that it reads."""

    application: Application
    steps: Steps
    tables: tuple[Table, ...]
    definition: str

    @property
    def events(self) -> tuple[type[Event], ...]:
        """Every event that has columns."""
        return tuple(event for event in self.application.choreography.events if is_tabular(event))

    @property
    def topics(self) -> tuple[str, ...]:
        """Their topics."""
        return tuple(sorted({contract_of(event).topic.name for event in self.events}))

    @property
    def journals(self) -> tuple[str, ...]:
        """The topics of the journals, where a history is made of them."""
        return tuple(self.fold.routes.journals) if self.folded else ()

    @property
    def sources(self) -> tuple[str, ...]:
        """All topics that the tables are made of."""
        return (*self.topics, *self.journals)

    @cached_property
    def fold(self) -> Fold:
        """The fold of the application's journals."""
        return Fold(self.application)

    @cached_property
    def folded(self) -> Mapping[str, FoldTable]:
        """The tables that are made of the journals, by name."""
        return {name: table for name, table in by_name(self.fold).items() if self.has(name)}

    @property
    def left_out(self) -> tuple[str, ...]:
        """The events that have no columns, so that they are in no table."""
        return tuple(contract_of(e).type for e in self.application.choreography.events if not is_tabular(e))

    @property
    def published(self) -> tuple[str, ...]:
        """The names of the tables for readers."""
        return tuple(table.name for table in self.tables if not table.hidden)

    def has(self, name: str) -> bool:
        """Return whether a table is made."""
        return any(table.name == name for table in self.tables)

    def wanted(self) -> Fields:
        """Return which fields of which events the tables read, beside `saga_steps`."""
        return fields_of(selection for table in self.tables if table.name != STEPS for selection in table.selections)


def catalogue_of(application: Application, select: Sequence[str] = ()) -> Catalogue:
    """Return the tables of an application: all, or those selected and what they read.

    Raises: WiringError when a table reads one that is not there, tables read each other in a circle, or a selected one is
    unknown.
    """
    packages = modules_of(application)
    own = [each for package in packages for each in _declared(package)]
    wanted = next((each.names for package in packages for each in of_kind(package, StepFields)), ())
    steps = Steps(application, _steps(application), wanted)
    fold = Fold(application)
    generic = [*event_tables(application), _steps_table(steps), *saga_tables(steps), *map(_fold_table, fold.tables)]
    known = _by_name([*generic, *own, quarantine_table()])
    unknown = [name for name in select if name not in known]
    if unknown:
        meant = did_you_mean(unknown[0], known)
        raise WiringError(f"there is no table {unknown[0]!r}: {meant}known are {', '.join(sorted(known))}")
    tables = tuple(_ordered(known, select or list(known)))
    is_folded = any(table.name in by_name(fold) for table in tables)
    parts = [fold.version] if is_folded else []
    return Catalogue(application, steps, tables, _definition(tables, [each.__name__ for each in packages], parts))


def _fold_table(table: FoldTable) -> Table:
    return Table(
        name=table.name,
        make=lambda: None,  # type: ignore[arg-type,return-value]  # the engine makes it of the journals
        reads={},
        key=table.key,
        doc=table.doc,
    )


def _steps(application: Application) -> tuple[type[Event], ...]:
    story = application.story_field
    found = [event for event in application.choreography.events if is_tabular(event)]
    return tuple(event for event in found if not story or story in event.model_fields)


def _steps_table(steps: Steps) -> Table:
    return Table(
        name=STEPS,
        make=steps.rows,
        reads={},
        key=PLACE,
        increment="append",
        columns={name: Column(doc) for name, (_, doc) in step_columns(steps.key).items()},
        doc="One row per event of each saga, with its cause and the time since it.",
    )


def _declared(module: ModuleType) -> Iterator[Table]:
    yield from (each for each in of_kind(module, Table) if each.place.startswith(f"{module.__name__}:"))
    if hasattr(module, "__path__"):
        yield from sql_tables(module.__name__)


def _by_name(tables: Iterable[Table]) -> dict[str, Table]:
    found = dict[str, Table]()
    for table in tables:
        other = found.setdefault(table.name, table)
        if other is not table:
            places = ", ".join(each.place or "the analytics' own" for each in (other, table))
            raise WiringError(f"two tables are named {table.name}: {places}")
    return found


def _ordered(known: Mapping[str, Table], select: Iterable[str]) -> Iterator[Table]:
    """Yield the selected tables and those that they read, each once, after what it reads."""
    done, path = set[str](), list[str]()

    def visit(name: str) -> Iterator[Table]:
        if name in path:
            circle = " → ".join([*path[path.index(name) :], name])
            raise WiringError(f"tables read each other in a circle: {circle}")
        if name in done:
            return
        path.append(name)
        for each in known[name].needs:
            if each not in known:
                raise WiringError(
                    f"table {name} ({known[name].place}) reads {each!r}, which there is not; known are {', '.join(sorted(known))}"
                )
            _refuse_rewritten(known[name], known[each])
            yield from visit(each)
        path.pop()
        done.add(name)
        yield known[name]

    for name in select:
        yield from visit(name)


def _refuse_rewritten(reader: Table, read: Table) -> None:
    """Refuse an increment made of what changes otherwise than by new rows."""
    if reader.increment != "whole" and read.increment != "append":
        raise WiringError(
            f"table {reader.name} ({reader.place}) is made of new rows only, and {read.name} has none: it is {read.increment}; "
            "read one that appends, or declare increment='whole'"
        )


def _definition(tables: Iterable[Table], modules: Iterable[str], others: Iterable[str]) -> str:
    """Return a fingerprint of what the tables are made of: other code makes other tables."""
    digest = hashlib.blake2b(str(_DEFINITION).encode(), digest_size=8)
    for table in tables:
        reads = [(name, each if isinstance(each, str) else _told(each)) for name, each in table.reads.items()]
        parts = (table.name, table.key, table.increment, table.source, sorted(table.merges.items()), reads)
        digest.update(repr(parts).encode())
    digest.update(modules_version(modules).encode())
    for each in others:
        digest.update(each.encode())
    return digest.hexdigest()


def _told(selection: Events) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(contract_of(event).type for event in selection.types), selection.fields
