"""Reconciles the live state with the log: key by key, at a position that both sides have."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from pyspark.sql import SparkSession

from analytics.audit.application import Application
from analytics.reconciling.api import api_findings
from analytics.reconciling.difference import Compared, Difference
from analytics.reconciling.expected import expected_orders
from analytics.reconciling.ledger import accounts, ledger_findings
from analytics.reconciling.live import STORE
from analytics.reconciling.orders_api import OrdersApi
from analytics.reconciling.states import state_findings

_COUNTS = Compared._fields[2:]

Progress = Callable[[str], None]
"""Called with what is being compared."""


@dataclass(frozen=True)
class ReconcileOptions:
    """What is compared with the log: states always, an order API and a gateway's ledger if given."""

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
    with ExitStack() as stack:
        api = None if wanted.api is None else stack.enter_context(OrdersApi(wanted.api))
        progress("the order API and the ledger")
        listed = {} if api is None else dict(api.orders())
        before = {} if wanted.ledger is None else accounts(wanted.ledger)
        logged = expected_orders(spark, url)
        if api is not None:
            yield api_findings(spark, (url, wanted.application), api, listed, logged)
        if wanted.ledger is not None:
            yield ledger_findings(wanted.ledger, before, logged)


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
