"""Reconciles the live state with the log: key by key, at a position that both sides have."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from pyspark.sql import SparkSession

from analytics.addon import declared
from analytics.audit.application import Application
from analytics.reconciling.api import api_findings
from analytics.reconciling.difference import Compared, Difference
from analytics.reconciling.live import STORE
from analytics.reconciling.outside import Outside, Row
from analytics.reconciling.states import state_findings
from eventlib.errors import WiringError

_COUNTS = Compared._fields[2:]

Progress = Callable[[str], None]
"""Called with what is being compared."""


@dataclass(frozen=True)
class ReconcileOptions:
    """What is compared with the log: states always, an API (its URL) and books of the outside world (a file) if given."""

    api: str | None = None
    ledger: Path | None = None
    application: Application = field(default_factory=Application)


@dataclass(frozen=True)
class Reconciled:
    """What was compared, and what differs."""

    compared: Sequence[Compared]
    differences: Sequence[Difference]
    seconds: float


def reconcile(
    spark: SparkSession, url: str, wanted: ReconcileOptions, progress: Progress = lambda _: None
) -> Reconciled:
    """Compare the live state with the state that follows from the log.

    States are those of every decider: in the local stores on this machine, and on the changelogs. Guarantee: changes in
    progress are no difference, services may be running; nothing is written except temporary files.
    A task whose journal and inputs are incomplete is itself a difference.
    Raises: LogUnavailable when the log, the API or the ledger is out of reach; ContractError when the API is another one.
    """
    began = perf_counter()
    progress("states of every decider")
    compared, differences = _states(spark, url, wanted.application)
    for counted, found in _outside(spark, url, wanted, progress) if wanted.api or wanted.ledger else ():
        compared, differences = [*compared, counted], [*differences, *found]
    return Reconciled(compared, differences, perf_counter() - began)


def _outside(
    spark: SparkSession, url: str, wanted: ReconcileOptions, progress: Progress
) -> Iterator[tuple[Compared, list[Difference]]]:
    """Yield the data of the API and of the ledger: both are read before the log."""
    outside = next(declared(wanted.application, Outside), Outside(_nothing))
    with ExitStack() as stack:
        about, books = outside.api, outside.ledger
        if wanted.api is not None and about is None:
            raise WiringError(_undeclared("--api", "api=LiveApi(…)", wanted.application))
        if wanted.ledger is not None and books is None:
            raise WiringError(_undeclared("--ledger", "ledger=LiveBooks(…)", wanted.application))
        progress("the API and the ledger")
        api = None if wanted.api is None or about is None else stack.enter_context(about.connect(wanted.api))
        listed = {} if api is None else dict(api.rows())
        before = None if wanted.ledger is None or books is None else books.read(wanted.ledger)
        logged = outside.expected(spark, url, None)
        if api is not None and about is not None:
            yield api_findings(spark, (url, wanted.application), outside, about, api, listed, logged)
        if wanted.ledger is not None and books is not None:
            yield books.compare(wanted.ledger, before, logged)


def _nothing(*_: object) -> Mapping[str, Row]:
    return {}


def _undeclared(option: str, what: str, application: Application) -> str:
    package = application.choreography.analytics
    where = f"`{package}` has no" if package else "it has no Choreography(analytics=…) with an"
    return f"{application.choreography.name} has nothing that {option} is compared with: {where} Outside({what})"


def _states(spark: SparkSession, url: str, application: Application) -> tuple[list[Compared], list[Difference]]:
    with TemporaryDirectory(prefix="reconcile-") as place:
        found, lost = state_findings(spark, url, application, Path(place))
        rows = found.collect()
    sums = dict[tuple[str, str], list[int]]()
    for row in rows:
        if row["key"] is None:
            before = sums.get((row["where"], row["about"]), [0] * len(_COUNTS))
            sums[row["where"], row["about"]] = [a + row[name] for a, name in zip(before, _COUNTS, strict=True)]
    compared = [Compared(*names, *sums[names]) for names in sorted(sums, key=lambda each: (each[0] != STORE, each))]
    differences = [Difference(*row[: len(Difference._fields)]) for row in rows if row["key"] is not None]
    return compared, [*lost, *sorted(differences, key=lambda each: (each.where, each.about, each.key))]
