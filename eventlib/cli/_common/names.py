"""Names that a shell completes, and the options and arguments that take them."""

import re
from collections.abc import Callable, Iterable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from eventlib.cli._common.options import LogOptions, argument, option, path_of, run_on_log

if TYPE_CHECKING:
    from eventlib.model.choreography import Choreography

_MOST = 50
_PATIENCE_S = 1.0
_HARMLESS = re.compile(r"[\w.:@%+=][\w.:@%+=/,-]*")
"""Others are left out: a key comes from outside, zsh evaluates what it completes, and bash puts it into the line as it is."""


def services(context: typer.Context, incomplete: str) -> list[str]:
    """Return names of services of the application."""
    return _beginning(context, incomplete, lambda options: (each.name for each in _application(options).services))


def deciders(context: typer.Context, incomplete: str) -> list[str]:
    """Return names of deciders of the application."""
    return _beginning(context, incomplete, lambda options: (each.name for each in _application(options).deciders))


def parked_keys(context: typer.Context, incomplete: str) -> list[str]:
    """Return keys under which something is parked on a log in a file."""
    from eventlib.queries.parked import parkings

    return _beginning(
        context, incomplete, lambda options: (each.key for each in run_on_log(_in_file(options), parkings))
    )


def open_sagas(context: typer.Context, incomplete: str) -> list[str]:
    """Return keys of sagas that have not ended, the newest first, of a log in a file whose index is there soon."""
    from eventlib.eventlog import EventLog
    from eventlib.search.saga_search import SagaQuery, SagaSearch

    async def found(log: EventLog) -> list[str]:
        async with SagaSearch(log) as search:
            await search.has_read(await search.ends(), _PATIENCE_S)
            page = await search.full_page(SagaQuery(f"status != 'ended' and saga like '{begin}%'", limit=_MOST))
            return [str(each["saga"]) for each in page.sagas]

    begin = incomplete.replace("'", "''")
    return _beginning(context, incomplete, lambda options: run_on_log(_in_file(options), found))


def _beginning(context: typer.Context, begin: str, names: Callable[[LogOptions], Iterable[str]]) -> list[str]:
    """Return the names that begin so and that no shell interprets; none where they cannot be found out, since a shell shows no error."""
    given = context.find_root().params | {name: value for name, value in context.params.items() if value}
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            options = LogOptions.of(context, given.get("app"), given.get("log"))
            found = (name for name in dict.fromkeys(names(options)) if name.startswith(begin))
            return [*islice(filter(_HARMLESS.fullmatch, found), _MOST)]
    except Exception:  # noqa: BLE001  of the application, its settings, the log
        return []


def _application(options: LogOptions) -> "Choreography":
    from eventlib.model.project import load_choreography

    return load_choreography(options.app)


def _in_file(options: LogOptions) -> LogOptions:
    """Return the options of a log in a file: a cluster takes too long for a shell. Raises: WiringError for any other log."""
    path_of(options.url, "what is completed")
    return options


ServicesOption = Annotated[
    list[str] | None, option("--service -s", "NAME", "Only this service; may be repeated.", autocompletion=services)
]
OfServicesOption = Annotated[
    list[str] | None, option("--service -s", "NAME", "Only of this service; may be repeated.", autocompletion=services)
]
ServiceArgument = Annotated[str, argument("SERVICE", "The service's name.", autocompletion=services)]
